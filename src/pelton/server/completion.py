"""POST /v1/completions: text goes on where a prompt ends."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, final

from starlette.requests import Request
from starlette.responses import Response

from pelton.api.output import Completion, TextDelta, TokenLogprob
from pelton.api.prompt import Prompt, parse_prompts
from pelton.errors import RequestError
from pelton.server.completion_schema import COMPLETION, DEFAULT_MAX_TOKENS, MAX_PROMPTS, CompletionRequest
from pelton.server.event_stream import EventStream
from pelton.server.generation import Call, Job, Shape, answer, read_request
from pelton.server.logprob_shape import make_completion_logprobs
from pelton.server.sampling_field import check_answers, check_stream_options, to_sampling, truncate
from pelton.server.state import ServerState, choose_request_id


async def create_completion(request: Request) -> Response | EventStream:
    """The handler of the route."""
    state: ServerState = request.app.state.pelton
    fields, ignored = await read_request(request, state, COMPLETION)
    state.check_model(fields.model)
    check_fields(fields)
    prompts = check_prompts(fields)
    sampling = to_sampling(
        fields,
        state.defaults,
        max_logprobs=state.config.server.max_logprobs,
        max_tokens=DEFAULT_MAX_TOKENS if fields.max_tokens is None else fields.max_tokens,
        logprobs=fields.logprobs,
    )
    check_answers(len(prompts), sampling.n)
    answer_id = f"cmpl-{choose_request_id(fields.request_id or request.scope['pelton.request_id'])}"

    async def prepare() -> Job:
        resolved = await state.engine.resolve_prompts(
            prompts, add_special_tokens=fields.add_special_tokens is not False
        )
        token_ids = [truncate(ids, fields.truncate_prompt_tokens) for ids in resolved]
        echoed = []
        if fields.echo:
            echoed = [await prompt_text(state, p, ids) for p, ids in zip(prompts, token_ids, strict=True)]
        shape = CompletionShape(state, answer_id, fields, sampling.n, token_ids, echoed)
        return Job(prompts=token_ids, sampling=sampling, shape=shape)

    num_answers = len(prompts) * sampling.n
    return await answer(
        request,
        state,
        Call(answer_id=answer_id, fields=fields, num_answers=num_answers, prepare=prepare, ignored_fields=ignored),
    )


def check_fields(fields: CompletionRequest) -> None:
    """Raise RequestError for fields that contradict each other."""
    check_stream_options(fields)
    if fields.best_of is not None and fields.best_of != (fields.n or 1):
        raise RequestError(
            f"best_of: {fields.best_of} with n={fields.n or 1}: choosing the best of more answers than are given is "
            "not done here. Use n.",
            param="best_of",
        )
    if fields.echo and fields.logprobs is not None:
        raise RequestError(
            "echo: not together with logprobs, because log-probabilities of the prompt are not computed.", param="echo"
        )


def check_prompts(fields: CompletionRequest) -> list[Prompt]:
    """The prompts. Raises RequestError unless there are 1 to MAX_PROMPTS, each of a known form."""
    given = fields.prompt
    if isinstance(given, list) and any(isinstance(item, dict) for item in given):
        raise RequestError("prompt: a list may hold texts or lists of token ids, not objects.", param="prompt")
    prompts, _ = parse_prompts(given)
    if not 1 <= len(prompts) <= MAX_PROMPTS:
        raise RequestError(f"prompt: {len(prompts)} prompts, expected 1 to {MAX_PROMPTS}.", param="prompt")
    return prompts


async def prompt_text(state: ServerState, prompt: Prompt, token_ids: tuple[int, ...]) -> str:
    """What `echo` puts in front of the answer."""
    return prompt.text if prompt.text is not None else await state.engine.detokenize(token_ids)


@final
class CompletionShape(Shape):
    """Answers of object text_completion."""

    def __init__(
        self,
        state: ServerState,
        answer_id: str,
        fields: CompletionRequest,
        n: int,
        prompts: list[tuple[int, ...]],
        echoed: list[str],
    ) -> None:
        self._head = {
            "id": answer_id,
            "object": "text_completion",
            "created": int(time.time()),
            "model": state.model_name,
            "system_fingerprint": state.fingerprint,
        }
        self._fields = fields
        self._n = n
        self._prompts = prompts
        self._echoed = echoed
        self._offsets = [len(self._prefix(index)) for index in range(len(prompts) * n)]

    def _prefix(self, index: int) -> str:
        return self._echoed[index // self._n] if self._echoed else ""

    def make_chunk(self, choices: list[dict[str, Any]]) -> dict[str, Any]:
        """A chunk of a stream."""
        return {**self._head, "choices": choices}

    def make_choices(self, delta: TextDelta, is_first: bool) -> Iterator[dict[str, Any]]:
        """One choice with the new text, unless there is nothing to tell."""
        text = (self._prefix(delta.index) if is_first else "") + delta.text
        if not (text or delta.logprobs or delta.finish_reason or self._fields.return_token_ids):
            return
        choice = self._choice(delta, text, delta.logprobs)
        if self._fields.return_token_ids and is_first:
            choice["prompt_token_ids"] = self._prompts[delta.index // self._n]
        yield choice

    def make_whole(self, completions: list[Completion], usage: dict[str, Any]) -> dict[str, Any]:
        """The whole answer."""
        choices = []
        for completion in completions:
            text = self._prefix(completion.index) + completion.text
            choice = self._choice(completion, text, completion.logprobs or ())
            if self._fields.return_token_ids:
                choice["prompt_token_ids"] = self._prompts[completion.index // self._n]
            choices.append(choice)
        return {**self._head, "choices": choices, "usage": usage}

    def _choice(self, part: TextDelta | Completion, text: str, logprobs: tuple[TokenLogprob, ...]) -> dict[str, Any]:
        shaped = None
        if self._fields.logprobs is not None:
            shaped = make_completion_logprobs(
                logprobs,
                self._fields.logprobs,
                as_ids=bool(self._fields.return_tokens_as_token_ids),
                first_offset=self._offsets[part.index],
            )
            self._offsets[part.index] += sum(len(token.text) for token in logprobs)
        choice = {
            "index": part.index,
            "text": text,
            "logprobs": shaped,
            "finish_reason": part.finish_reason,
            "stop_reason": part.stop_reason,
        }
        if self._fields.return_token_ids:
            choice["token_ids"] = part.token_ids
        return choice
