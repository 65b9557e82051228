"""An engine that says what it is told to, a tokenizer whose tokens are bytes, and a chat template of one line."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Any

from pelton.api.parts import EngineParts
from pelton.checkpoint.contract import GenerationDefaults
from pelton.config.schema import (
    CacheConfig,
    EngineConfig,
    LogConfig,
    ModelConfig,
    RunnerConfig,
    SchedulerConfig,
    ServerConfig,
)
from pelton.config.user_config import ask
from pelton.core.messages import EngineFacts
from pelton.core.outputs import EngineStats, RequestOutput, Timings
from pelton.core.step import NewRequest, RequestId, TokenLogprobs
from pelton.engine.client import EngineClient
from pelton.errors import RequestError
from pelton.tokenization.chat import Prompt as ChatPrompt

EOS, BOS = 256, 257
VOCAB_SIZE = 258
ANSWER = "Hello, world"


class ByteTokenizer:
    """A token is a byte; two more are control tokens."""

    vocab_size = VOCAB_SIZE
    special_ids = frozenset({EOS, BOS})
    end_token_ids = frozenset({EOS})
    strips_first_space = False

    def encode(self, text: str, *, add_special_tokens: bool = True, parse_special: bool = True) -> list[int]:
        return [*([BOS] if add_special_tokens else []), *text.encode()]

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        for id_ in ids:
            if not 0 <= id_ < VOCAB_SIZE:
                raise RequestError(f"token id {id_} is outside the vocabulary of {VOCAB_SIZE} tokens.")
        kept = [id_ for id_ in ids if not (skip_special_tokens and id_ in self.special_ids)]
        return b"".join(map(self.token_bytes, kept)).decode("utf-8", "replace")

    def token_bytes(self, id_: int) -> bytes:
        return {EOS: b"<eos>", BOS: b"<bos>"}.get(id_, bytes([id_ % 256]))

    def id_to_token(self, id_: int) -> str:
        return self.token_bytes(id_).decode("latin-1")


class OneLineChat:
    """The last message's text between brackets; keeps what it was called with."""

    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []

    def make_prompt(self, messages: Sequence[Mapping[str, Any]], **more: Any) -> ChatPrompt:
        self.calls.append({"messages": messages, **more})
        text = f"[{messages[-1]['content']}]"
        return ChatPrompt(text, list(text.encode()))


def text_tokens(text: str) -> list[int]:
    """The tokens of a whole answer, with end of sequence."""
    return [*text.encode(), EOS]


def length_tokens(text: str) -> list[int]:
    """The tokens of an answer that was cut by max_tokens."""
    return list(text.encode())


class FakeEngineClient(EngineClient):
    """Answers with `answer(request)`: a list of tokens, cut at max_tokens, or an error to raise or to report."""

    def __init__(self, answer: Callable[[NewRequest], list[int]] | None = None, *, tokens_per_output: int = 1) -> None:
        self.answer = answer or (lambda _request: text_tokens(ANSWER))
        self.tokens_per_output = tokens_per_output
        self.requests: list[NewRequest] = []
        self.live: set[RequestId] = set()
        self.aborted: set[RequestId] = set()
        self.problem: str | None = None
        self.fail_after: int | None = None  # outputs, then finish_reason "error"
        self.error_class = ""  # of that failure
        self.gate: asyncio.Event | None = None  # after the first output, wait for it
        self.is_gate_first = False  # wait before the first output already
        self.lost = asyncio.Event()
        self.is_closed = False
        self.drain_timeout_s = 0.0
        self._closing = asyncio.Event()

    async def generate(self, request: NewRequest) -> AsyncGenerator[RequestOutput]:
        self.requests.append(request)
        self.live.add(request.request_id)
        is_whole = False
        try:
            async for output in self._outputs(request):
                is_whole = output.finish_reason is not None
                yield output
        finally:
            self.live.discard(request.request_id)
            if not is_whole:
                self.aborted.add(request.request_id)

    async def _outputs(self, request: NewRequest) -> AsyncGenerator[RequestOutput]:
        tokens = self.answer(request)
        limit = request.sampling.max_tokens or len(tokens)
        is_cut = len(tokens) > limit
        tokens = tokens[:limit]
        for number, start in enumerate(range(0, len(tokens), self.tokens_per_output)):
            if self.gate is not None and (number == 1 or (self.is_gate_first and number == 0)):
                await self._wait(self.gate)
            if self._closing.is_set() or request.request_id in self.aborted:
                yield RequestOutput(request_id=request.request_id, finish_reason="abort")
                return
            await asyncio.sleep(0)
            if self.fail_after == number:
                yield RequestOutput(
                    request_id=request.request_id,
                    finish_reason="error",
                    error="the device is on fire.",
                    error_class=self.error_class,
                )
                return
            part = tuple(tokens[start : start + self.tokens_per_output])
            is_last = start + self.tokens_per_output >= len(tokens)
            stops = {*request.eos_token_ids, *request.sampling.stop_token_ids}
            stop = part[-1] if is_last and part[-1] in stops else None
            finish = ("length" if is_cut or stop is None else "stop") if is_last else None
            yield RequestOutput(
                request_id=request.request_id,
                token_ids=part,
                logprobs=self._logprobs(request, part),
                finish_reason=finish,
                stop_token_id=stop,
                num_cached_tokens=1,
                timings=Timings(arrival_s=1.0, first_scheduled_s=1.5, first_token_s=2.0, last_token_s=3.0),
            )

    async def _wait(self, gate: asyncio.Event) -> None:
        waits = [asyncio.create_task(gate.wait()), asyncio.create_task(self._closing.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    def _logprobs(self, request: NewRequest, part: tuple[int, ...]) -> tuple[TokenLogprobs, ...]:
        k = request.sampling.logprobs
        if k is None:
            return ()
        top = tuple(range(65, 65 + k))
        return tuple(TokenLogprobs(-0.5, top, tuple(-1.0 - i for i in range(k))) for _ in part)

    async def abort(self, request_id: RequestId) -> None:
        self.aborted.add(request_id)
        if self.gate is not None:
            self.gate.set()

    def stats(self) -> EngineStats:
        return EngineStats(num_running=len(self.live), num_blocks=64, num_free_blocks=48)

    def health_problem(self) -> str | None:
        return self.problem

    async def wait_until_lost(self) -> str:
        await self.lost.wait()
        return "It failed for good."

    def reopen(self) -> None:
        """Be a freshly started engine."""
        self.is_closed = False
        self._closing = asyncio.Event()

    async def close(self, drain_timeout_s: float = 0.0) -> None:
        self.is_closed = True
        self.drain_timeout_s = drain_timeout_s
        self._closing.set()


def make_parts(
    client: EngineClient | None = None,
    *,
    generation: GenerationDefaults | None = None,
    max_model_len: int = 200,
    generation_config: str = "auto",
    scheduling_policy: str = "fcfs",
    log: LogConfig | None = None,
    **server: Any,
) -> EngineParts:
    """A fake engine with everything around it; `server` are settings of ServerConfig."""
    return EngineParts(
        client=client or FakeEngineClient(),
        facts=EngineFacts(
            max_model_len=max_model_len,
            max_num_requests=4,
            max_num_batched_tokens=64,
            max_prefill_chunk=32,
            vocab_size=VOCAB_SIZE,
            block_size=16,
            num_blocks=64,
        ),
        asked=ask(model="tiny", api_key=server.get("api_key")),
        config=EngineConfig(
            model=ModelConfig(model="tiny", served_model_name=("tiny", "alias"), generation_config=generation_config),
            cache=CacheConfig(block_size=16, num_blocks=64),
            scheduler=SchedulerConfig(
                max_num_requests=4,
                max_num_batched_tokens=64,
                max_prefill_chunk=32,
                scheduling_policy=scheduling_policy,
            ),
            runner=RunnerConfig(backend="reference", num_threads=1),
            server=ServerConfig(**server),
            log=log or LogConfig(),
        ),
        decisions=(),
        tokenizer=ByteTokenizer(),  # type: ignore[arg-type]
        chat=OneLineChat(),
        generation=generation or GenerationDefaults(eos_token_ids=(EOS,)),
    )
