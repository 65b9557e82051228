"""An engine for asyncio programs: submit prompts, iterate over answers while they grow, abort.

Invariant: the engine is started once, by `start`, `async with` or the first use, and ended by `close`. Belongs to the
event loop that started it. Runs the engine in this process unless told otherwise.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any, final

from pelton.api.conversation import Conversation, render_conversation
from pelton.api.generation_default import choose_defaults, make_sampling
from pelton.api.output import Completion, Generation
from pelton.api.parts import EngineParts, ProgressCallback
from pelton.api.prompt import Prompt, parse_prompt
from pelton.api.text_engine import TextEngine
from pelton.config.user_config import UserConfig, ask
from pelton.core.sampling_params import SamplingParams
from pelton.core.step import RequestId
from pelton.errors import RequestError


@final
class AsyncLLM:
    """`AsyncLLM("demo", max_model_len=4096)`: a model and any setting of `pelton config`, by its name."""

    def __init__(
        self, model: str | UserConfig, *, on_progress: ProgressCallback | None = None, **settings: Any
    ) -> None:
        self._asked = model if isinstance(model, UserConfig) else ask(model=model, **settings)
        self._on_progress = on_progress
        self._starting: asyncio.Task[TextEngine] | None = None
        self._numbers = itertools.count()
        self._live: dict[str, list[RequestId]] = {}

    @classmethod
    def from_parts(cls, parts: EngineParts) -> AsyncLLM:
        """Around an engine that runs already; `close` ends it."""
        llm = cls(ask(model="given"))

        async def given() -> TextEngine:
            return TextEngine(parts)

        llm._starting = asyncio.get_running_loop().create_task(given())
        return llm

    async def start(self) -> TextEngine:
        """Load the model, unless that was done. Concurrent callers wait for the same start."""
        if self._starting is None:
            self._starting = asyncio.get_running_loop().create_task(self._start())
        return await asyncio.shield(self._starting)

    async def _start(self) -> TextEngine:
        from pelton.api.assemble import start_in_process  # noqa: PLC0415  pulls the execution plane in

        return TextEngine(await start_in_process(self._asked, on_progress=self._on_progress))

    async def generate(
        self,
        prompt: Any,
        sampling_params: SamplingParams | None = None,
        request_id: str | None = None,
        *,
        add_special_tokens: bool = True,
    ) -> AsyncGenerator[Generation]:
        """Yield the prompt's answers as far as they have come, each time longer; the last one is `finished`.

        `prompt` is a text, token ids, {"prompt": text} or {"prompt_token_ids": ids}. Without `sampling_params` the
        model's own defaults hold. Closing the iterator aborts the request.
        """
        engine = await self.start()
        given = parse_prompt(prompt)
        sampling = sampling_params or self._default_sampling(engine, max_tokens=16)
        (token_ids,) = await engine.resolve_prompts([given], add_special_tokens=add_special_tokens)
        request_id = request_id or f"request-{next(self._numbers)}"
        if request_id in self._live:
            raise RequestError(f"request_id: {request_id!r} is in use. Give each live request its own.")
        self._live[request_id] = engine.engine_request_ids(request_id, sampling.n)
        try:
            async with aclosing(self._grow(engine, given, token_ids, sampling, request_id)) as generations:
                async for generation in generations:
                    yield generation
        finally:
            del self._live[request_id]

    async def _grow(
        self,
        engine: TextEngine,
        prompt: Prompt,
        token_ids: tuple[int, ...],
        sampling: SamplingParams,
        request_id: str,
    ) -> AsyncGenerator[Generation]:
        generation = Generation(
            request_id=request_id,
            prompt=prompt.text,
            prompt_token_ids=token_ids,
            outputs=tuple(Completion(index=i) for i in range(sampling.n)),
        )
        async with aclosing(engine.generate([token_ids], sampling, request_id=request_id)) as deltas:
            async for delta in deltas:
                generation = generation.extend(delta)
                yield generation

    async def complete(
        self,
        prompt: Any,
        sampling_params: SamplingParams | None = None,
        request_id: str | None = None,
        *,
        add_special_tokens: bool = True,
    ) -> Generation:
        """The whole of `generate`, when it is finished."""
        last: Generation | None = None
        generations = self.generate(prompt, sampling_params, request_id, add_special_tokens=add_special_tokens)
        async for generation in generations:
            last = generation
        assert last is not None, "a generation ends with a finish reason"
        return last

    async def chat(
        self,
        messages: Sequence[Mapping[str, Any]],
        sampling_params: SamplingParams | None = None,
        request_id: str | None = None,
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        continue_final_message: bool = False,
        chat_template_kwargs: Mapping[str, Any] | None = None,
    ) -> AsyncGenerator[Generation]:
        """Yield the growing answers to a conversation. By default an answer may fill the rest of the context."""
        engine = await self.start()
        conversation = Conversation.parse(
            messages,
            tools=tools,
            add_generation_prompt=add_generation_prompt,
            continue_final_message=continue_final_message,
            variables=chat_template_kwargs or {},
        )
        prompt = await render_conversation(engine, conversation)
        sampling = sampling_params or self._default_sampling(engine, max_tokens=None)
        generations = self.generate(prompt.token_ids, sampling, request_id)
        async with aclosing(generations):
            async for generation in generations:
                yield replace(generation, prompt=prompt.text)

    async def tokenize(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        """The token ids of `text`."""
        return list(await (await self.start()).tokenize(text, add_special_tokens=add_special_tokens))

    async def detokenize(self, token_ids: Sequence[int], *, skip_special_tokens: bool = False) -> str:
        """The text of `token_ids`."""
        return await (await self.start()).detokenize(token_ids, skip_special_tokens=skip_special_tokens)

    async def abort(self, request_id: str) -> None:
        """End a request; its iterator gives one last output with finish_reason "abort". Unknown ids are ignored."""
        for engine_request_id in self._live.get(request_id, []):
            await (await self.start()).parts.client.abort(engine_request_id)

    async def close(self) -> None:
        """Abort what lives and end the engine. May be called more than once."""
        if self._starting is None:
            return
        starting, self._starting = self._starting, None
        if not starting.done():
            starting.cancel()
            await asyncio.wait([starting])
        if starting.cancelled() or starting.exception() is not None:
            return
        engine = starting.result()
        await engine.parts.client.close()
        engine.close()
        engine.parts.close()

    def _default_sampling(self, engine: TextEngine, *, max_tokens: int | None) -> SamplingParams:
        defaults = choose_defaults(engine.parts.generation, engine.parts.config.model.generation_config)
        return make_sampling({}, {**defaults, "max_tokens": max_tokens})

    async def __aenter__(self) -> AsyncLLM:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
