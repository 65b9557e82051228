"""POST /v1/chat/completions: the next message of a conversation."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, final

from starlette.requests import Request
from starlette.responses import Response

from pelton.api.conversation import Conversation, render_conversation
from pelton.api.output import Completion, TextDelta, TokenLogprob
from pelton.core.sampling_params import SamplingParams
from pelton.errors import RequestError
from pelton.server.chat_schema import CHAT, ChatRequest
from pelton.server.event_stream import EventStream
from pelton.server.generation import Call, Job, Shape, answer, read_request
from pelton.server.logprob_shape import make_chat_logprobs
from pelton.server.sampling_field import check_answers, check_stream_options, to_sampling, truncate
from pelton.server.state import Identity, ServerState, choose_request_id


async def create_chat_completion(request: Request) -> Response | EventStream:
    """The handler of the route."""
    state: ServerState = request.app.state.pelton
    fields, ignored = await read_request(request, state, CHAT)
    state.check_model(fields.model)
    conversation = make_conversation(fields)
    sampling = make_chat_sampling(fields, state)
    answer_id = f"chatcmpl-{choose_request_id(fields.request_id or request.scope['pelton.request_id'])}"

    async def prepare() -> Job:
        prompt = await render_conversation(state.engine, conversation)
        token_ids = truncate(tuple(prompt.token_ids), fields.truncate_prompt_tokens)
        return Job(prompts=[token_ids], sampling=sampling, shape=ChatShape(state, answer_id, fields, token_ids))

    return await answer(
        request,
        state,
        Call(answer_id=answer_id, fields=fields, num_answers=sampling.n, prepare=prepare, ignored_fields=ignored),
    )


def make_conversation(fields: ChatRequest) -> Conversation:
    """The checked conversation of a request."""
    tool_choice = fields.tool_choice
    if tool_choice not in (None, "auto", "none"):
        raise RequestError(
            f"tool_choice: {str(tool_choice)[:64]!r} would force a call, which needs output that follows a grammar; "
            "this version cannot do it. Use 'auto' or 'none'.",
            param="tool_choice",
            code="unsupported_parameter",
        )
    if fields.add_special_tokens:
        raise RequestError(
            "add_special_tokens: the chat template puts them in already; use false or leave it out.",
            param="add_special_tokens",
        )
    variables = dict(fields.chat_template_kwargs or {})
    if fields.reasoning_effort is not None:
        variables.setdefault("reasoning_effort", fields.reasoning_effort)
    return Conversation.parse(
        fields.messages or (),
        tools=None if tool_choice == "none" else fields.tools,
        add_generation_prompt=fields.add_generation_prompt is not False,
        continue_final_message=bool(fields.continue_final_message),
        variables=variables,
    )


def make_chat_sampling(fields: ChatRequest, state: ServerState) -> SamplingParams:
    """The sampling parameters of a request. Raises RequestError, also for fields that contradict each other."""
    check_stream_options(fields)
    if len({fields.max_tokens, fields.max_completion_tokens} - {None}) > 1:
        raise RequestError("max_tokens: differs from max_completion_tokens; give one of them.", param="max_tokens")
    if fields.top_logprobs is not None and not fields.logprobs:
        raise RequestError("top_logprobs: only together with logprobs=true.", param="top_logprobs")
    sampling = to_sampling(
        fields,
        state.defaults,
        max_logprobs=state.config.server.max_logprobs,
        max_tokens=fields.max_tokens if fields.max_completion_tokens is None else fields.max_completion_tokens,
        logprobs=(fields.top_logprobs or 0) if fields.logprobs else None,
    )
    check_answers(1, sampling.n)
    return sampling


@final
class ChatShape(Shape):
    """Answers of object chat.completion and chat.completion.chunk."""

    def __init__(
        self, server: Identity, answer_id: str, fields: ChatRequest, prompt_token_ids: tuple[int, ...]
    ) -> None:
        self._head = {
            "id": answer_id,
            "created": int(time.time()),
            "model": server.model_name,
            "system_fingerprint": server.fingerprint,
        }
        self._fields = fields
        self._prompt_token_ids = prompt_token_ids

    def make_chunk(self, choices: list[dict[str, Any]]) -> dict[str, Any]:
        """A chunk of a stream."""
        return {**self._head, "object": "chat.completion.chunk", "choices": choices}

    def make_choices(self, delta: TextDelta, is_first: bool) -> Iterator[dict[str, Any]]:
        """The role before the first text, the text, and the finish reason in a chunk of its own."""
        if is_first:
            choice = self._choice(delta.index, {"role": "assistant", "content": ""})
            if self._fields.return_token_ids:
                choice["prompt_token_ids"] = self._prompt_token_ids
            yield choice
        if delta.text or delta.logprobs or self._fields.return_token_ids:
            choice = self._choice(delta.index, {"content": delta.text}, delta.logprobs)
            if self._fields.return_token_ids:
                choice["token_ids"] = delta.token_ids
            yield choice
        if delta.finish_reason is not None:
            finish = {"finish_reason": delta.finish_reason, "stop_reason": delta.stop_reason}
            yield {**self._choice(delta.index, {}), **finish}

    def make_whole(self, completions: list[Completion], usage: dict[str, Any]) -> dict[str, Any]:
        """The whole answer."""
        choices = []
        for completion in completions:
            choice = {
                "index": completion.index,
                "message": {"role": "assistant", "content": completion.text, "refusal": None},
                "logprobs": self._logprobs(completion.logprobs or ()),
                "finish_reason": completion.finish_reason,
                "stop_reason": completion.stop_reason,
            }
            if self._fields.return_token_ids:
                choice["token_ids"] = completion.token_ids
            choices.append(choice)
        whole = {**self._head, "object": "chat.completion", "choices": choices, "usage": usage}
        if self._fields.return_token_ids:
            whole["prompt_token_ids"] = self._prompt_token_ids
        return whole

    def _choice(self, index: int, delta: dict[str, Any], logprobs: tuple[TokenLogprob, ...] = ()) -> dict[str, Any]:
        shaped = self._logprobs(logprobs) if logprobs else None
        return {"index": index, "delta": delta, "logprobs": shaped, "finish_reason": None}

    def _logprobs(self, logprobs: tuple[TokenLogprob, ...]) -> dict[str, Any] | None:
        if not self._fields.logprobs:
            return None
        as_ids = bool(self._fields.return_tokens_as_token_ids)
        return make_chat_logprobs(logprobs, self._fields.top_logprobs or 0, as_ids=as_ids)
