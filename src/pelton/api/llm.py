"""An engine for scripts: give prompts, get answers.

Invariant: one thread runs the event loop of an `AsyncLLM`; every method hands work to it and waits, so calls may come
from any thread, and Ctrl-C in the caller cancels what it waits for. `close` ends the engine and the thread.
"""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import AsyncGenerator, Coroutine, Mapping, Sequence
from contextlib import aclosing
from typing import Any, TypeVar, final

from pelton.api.async_llm import AsyncLLM
from pelton.api.output import Generation
from pelton.api.parts import ProgressCallback
from pelton.api.progress import ProgressBar, StartBar
from pelton.api.prompt import parse_prompts
from pelton.config.user_config import UserConfig
from pelton.core.sampling_params import SamplingParams
from pelton.errors import RequestError

T = TypeVar("T")


@final
class LLM:
    """`LLM("demo")` loads the model; any setting of `pelton config` may be given by its name.

    Without `on_progress` the start shows a bar if stderr is a terminal.
    """

    def __init__(
        self, model: str | UserConfig, *, on_progress: ProgressCallback | None = None, **settings: Any
    ) -> None:
        bar = StartBar(is_shown=on_progress is None)
        self._llm = AsyncLLM(model, on_progress=on_progress or bar, **settings)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="pelton-llm", daemon=True)
        self._thread.start()
        # Also when the program ends, or nobody holds this object any more.
        self._shut_down = weakref.finalize(self, shut_down, self._llm, self._loop, self._thread)
        try:
            with bar:
                self._wait(self._llm.start())
        except BaseException:
            self.close()
            raise

    def generate(
        self,
        prompts: Any,
        sampling_params: SamplingParams | Sequence[SamplingParams] | None = None,
        *,
        use_tqdm: bool = True,
    ) -> list[Generation]:
        """The answers to one prompt or many, in their order, all computed together.

        A prompt is a text, a list of token ids, {"prompt": text} or {"prompt_token_ids": ids}. `sampling_params` is
        one for all, or one each; without, the model's own defaults hold. Progress is shown if stderr is a terminal.
        Raises RequestError for a prompt that cannot run, before any answer is given.
        """
        parsed, _ = parse_prompts(prompts)
        forms = [{"prompt": p.text} if p.text is not None else {"prompt_token_ids": p.token_ids} for p in parsed]
        each = spread(sampling_params, len(forms))
        return self._all(
            [self._llm.generate(form, sampling) for form, sampling in zip(forms, each, strict=True)], use_tqdm
        )

    def chat(
        self,
        messages: Sequence[Any],
        sampling_params: SamplingParams | Sequence[SamplingParams] | None = None,
        *,
        use_tqdm: bool = True,
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        continue_final_message: bool = False,
        chat_template_kwargs: Mapping[str, Any] | None = None,
    ) -> list[Generation]:
        """The answers to one conversation (a list of messages) or many (a list of those)."""
        is_one = bool(messages) and isinstance(messages[0], Mapping)
        conversations = [messages] if is_one else list(messages)
        each = spread(sampling_params, len(conversations))
        answers = [
            self._llm.chat(
                conversation,
                sampling,
                tools=tools,
                add_generation_prompt=add_generation_prompt,
                continue_final_message=continue_final_message,
                chat_template_kwargs=chat_template_kwargs,
            )
            for conversation, sampling in zip(conversations, each, strict=True)
        ]
        return self._all(answers, use_tqdm)

    def tokenize(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        """The token ids of `text`."""
        return self._wait(self._llm.tokenize(text, add_special_tokens=add_special_tokens))

    def detokenize(self, token_ids: Sequence[int], *, skip_special_tokens: bool = False) -> str:
        """The text of `token_ids`."""
        return self._wait(self._llm.detokenize(token_ids, skip_special_tokens=skip_special_tokens))

    def close(self) -> None:
        """End the engine and give its memory back. May be called more than once."""
        self._shut_down()

    def _all(self, answers: list[AsyncGenerator[Generation]], use_tqdm: bool) -> list[Generation]:
        with ProgressBar("Prompts", len(answers), is_shown=use_tqdm) as bar:
            return self._wait(finish_all(answers, bar))

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        if self._loop.is_closed():
            work.close()
            raise RequestError("This LLM is closed. Make another one.")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:  # KeyboardInterrupt in the caller: what it waits for must not run on
            future.cancel()
            raise

    def __enter__(self) -> LLM:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def shut_down(llm: AsyncLLM, loop: asyncio.AbstractEventLoop, thread: threading.Thread) -> None:
    """End the engine, the event loop and its thread; from the thread itself, without waiting for any of them."""
    closing = asyncio.run_coroutine_threadsafe(llm.close(), loop)
    if threading.current_thread() is thread:
        closing.add_done_callback(lambda _: loop.stop())
        return
    closing.result()
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


async def finish_all(answers: list[AsyncGenerator[Generation]], bar: ProgressBar) -> list[Generation]:
    """The finished generations in order. The first failure ends all the others."""
    tasks = [asyncio.create_task(_finish(answer, bar)) for answer in answers]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _finish(answer: AsyncGenerator[Generation], bar: ProgressBar) -> Generation:
    last: Generation | None = None
    async with aclosing(answer):
        async for generation in answer:
            last = generation
    assert last is not None, "a generation ends with a finish reason"
    bar.advance(sum(len(completion.token_ids) for completion in last.outputs))
    return last


def spread(sampling: SamplingParams | Sequence[SamplingParams] | None, count: int) -> list[SamplingParams | None]:
    """One for each prompt. Raises RequestError if a list has another length.

    >>> spread(None, 2)
    [None, None]
    """
    if sampling is None or isinstance(sampling, SamplingParams):
        return [sampling] * count
    if len(sampling) != count:
        raise RequestError(f"sampling_params: {len(sampling)} given for {count} prompts. Give one, or one each.")
    return list(sampling)
