"""Executors in the place of a model: the oracle, and one that says what its prompt tells it to.

The oracle's cache holds, for every token, the digest of all tokens up to it (chain.py), in the slot that the block
table names. It goes on from the digest that it reads there, and at every token checks others further back against
their neighbours; if one is not what it must be, the answer is NO_TOKEN and ends with an error. So a wrong slot, a stale
block, a prefix of somebody else, a lost or repeated token: none goes unnoticed.

Runs on the engine's thread; about 4 us for each token, and as long as it is told to take.
"""

from __future__ import annotations

import random
import time
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, final

from pelton.core.step import (
    BlockId,
    ModelRunnerOutput,
    NewRequest,
    RequestId,
    SampledToken,
    ScheduledRequest,
    SchedulerOutput,
    TokenLogprobs,
)
from pelton.engine.executor import Executor
from pelton.errors import ConfigError
from pelton.oracle.chain import DIGEST_BYTES, GREEDY_TEMPERATURE, begin, choose, extend
from pelton.oracle.fault import NO_TOKEN, Fault, commit, find_fault

NUM_CHECKED: Final = 2  # earlier tokens that are checked with every token
SCRIPT_BEGIN: Final = 2  # the bytes STX and ETX around what the scripted executor says
SCRIPT_END: Final = 3
MAX_REPEAT: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """What a step takes, so that schedulers and servers can be tested at the speed of a model."""

    step_ms: float = 0.0
    token_us: float = 0.0

    @staticmethod
    def parse(text: str) -> Speed:
        """From `step_ms=2,token_us=50`. Raises ConfigError."""
        values: dict[str, float] = {}
        for part in filter(None, text.split(",")):
            name, _, value = part.partition("=")
            try:
                values[name] = float(value)
            except ValueError:
                values["?"] = 0.0
        if not values.keys() <= {"step_ms", "token_us"} or min(values.values(), default=0.0) < 0:
            raise ConfigError(f"--executor: {text!r} is no speed, expected for example step_ms=2,token_us=50.")
        return Speed(**values)

    def take(self, num_tokens: int) -> None:
        """Sleep for as long as a step of `num_tokens` takes."""
        seconds = self.step_ms / 1e3 + self.token_us * num_tokens / 1e6
        if seconds > 0:
            time.sleep(seconds)


class Row:
    """What an executor knows of a request."""

    __slots__ = ("fault", "num_logprobs", "num_prompt", "seed", "start", "tokens")

    def __init__(self, new: NewRequest) -> None:
        self.tokens = array("i", (*new.prompt_token_ids, *new.output_token_ids))
        self.num_prompt = len(new.prompt_token_ids)
        self.num_logprobs = new.sampling.logprobs
        self.start = begin(new.tenant, new.cache_salt)
        self.seed = None if new.sampling.temperature < GREEDY_TEMPERATURE else new.sampling.seed or 0
        self.fault: Fault | None = find_fault(new.prompt_token_ids)

    def make_logprobs(self, token_id: int) -> TokenLogprobs | None:
        """What a request that asks for log-probabilities gets: an oracle is sure, and the others are alike."""
        if self.num_logprobs is None:
            return None
        others = range(self.num_logprobs - 1)
        top = (max(token_id, 0), *others)[: self.num_logprobs]
        return TokenLogprobs(0.0, top, (0.0, *(-9.0 for _ in others))[: self.num_logprobs])


class RowExecutor(Executor):
    """The part that the executors here share: rows, and the order of a step."""

    max_repeat = MAX_REPEAT

    def __init__(self, speed: Speed | None = None) -> None:
        self._speed = speed or Speed()
        self.rows: dict[RequestId, Row] = {}

    def execute(self, step: SchedulerOutput) -> ModelRunnerOutput:
        """Compute every scheduled token, then choose for those whose last known token was among them."""
        for request_id in step.finished:
            del self.rows[request_id]
        for copy in step.copies:
            self.copy(copy.source, copy.target)
        for new in step.added:
            self.rows[new.request_id] = Row(new)
        sampled: list[SampledToken] = []
        self._speed.take(sum(part.num_scheduled_tokens for part in step.scheduled))
        for part in step.scheduled:
            row, end = self.rows[part.request_id], part.num_computed_tokens + part.num_scheduled_tokens
            is_sound = self.compute(row, part.block_ids, part.num_computed_tokens, end)
            if end == len(row.tokens):
                sampled.append(self._extend(part, row, is_sound=is_sound))
        for _ in range(step.repeat - 1):
            self._speed.take(len(step.scheduled))
            for part in step.scheduled:
                row = self.rows[part.request_id]
                is_sound = self.compute(row, part.block_ids, len(row.tokens) - 1, len(row.tokens))
                sampled.append(self._extend(part, row, is_sound=is_sound))
        return ModelRunnerOutput(step=step.step, sampled=tuple(sampled))

    def _extend(self, part: ScheduledRequest, row: Row, *, is_sound: bool) -> SampledToken:
        token_id = self.choose(row, part.block_ids) if is_sound else NO_TOKEN
        if row.fault is not None and len(row.tokens) - row.num_prompt == row.fault.after:
            token_id = commit(row.fault)
        row.tokens.append(max(token_id, 0))
        return SampledToken(part.request_id, token_id, row.make_logprobs(token_id))

    def copy(self, source: BlockId, target: BlockId) -> None:
        """Copy a block of the cache."""

    def compute(self, row: Row, block_ids: Sequence[BlockId], start: int, end: int) -> bool:
        """Compute the tokens from `start` to `end`. Whether all that was read for it is right."""
        raise NotImplementedError

    def choose(self, row: Row, block_ids: Sequence[BlockId]) -> int:
        """The token after all of the row's."""
        raise NotImplementedError

    def close(self) -> None:
        """Forget everything."""
        self.rows.clear()


@final
class OracleExecutor(RowExecutor):
    """See the module."""

    def __init__(self, num_blocks: int, block_size: int, speed: Speed | None = None) -> None:
        super().__init__(speed)
        self._block_size = block_size
        self._memory = bytearray(num_blocks * block_size * DIGEST_BYTES)
        self._random = random.Random(0)

    def copy(self, source: BlockId, target: BlockId) -> None:
        """Copy the digests of a block."""
        size = self._block_size * DIGEST_BYTES
        self._memory[target * size : (target + 1) * size] = self._memory[source * size : (source + 1) * size]

    def compute(self, row: Row, block_ids: Sequence[BlockId], start: int, end: int) -> bool:
        """Go on from the digest in the cache; check some before it."""
        digest = self._read(row, block_ids, start - 1)
        for position in range(start, end):
            digest = extend(digest, row.tokens[position])
            slot = self._slot(block_ids, position)
            self._memory[slot : slot + DIGEST_BYTES] = digest
        checked = (self._random.randrange(end) for _ in range(NUM_CHECKED))
        return all(
            extend(self._read(row, block_ids, position - 1), row.tokens[position])
            == self._read(row, block_ids, position)
            for position in checked
        )

    def choose(self, row: Row, block_ids: Sequence[BlockId]) -> int:
        """What the digest of all tokens says."""
        return choose(self._read(row, block_ids, len(row.tokens) - 1), row.seed)

    def _read(self, row: Row, block_ids: Sequence[BlockId], position: int) -> bytes:
        if position < 0:
            return row.start
        slot = self._slot(block_ids, position)
        return bytes(self._memory[slot : slot + DIGEST_BYTES])

    def _slot(self, block_ids: Sequence[BlockId], position: int) -> int:
        block, place = divmod(position, self._block_size)
        return (block_ids[block] * self._block_size + place) * DIGEST_BYTES


@final
class ScriptedExecutor(RowExecutor):
    """Says, token by token, what stands between the last STX and ETX of the prompt, and then the end token."""

    def __init__(self, end_token_id: int, speed: Speed | None = None) -> None:
        super().__init__(speed)
        self._end_token_id = end_token_id

    def compute(self, row: Row, block_ids: Sequence[BlockId], start: int, end: int) -> bool:
        """There is nothing to compute."""
        return True

    def choose(self, row: Row, block_ids: Sequence[BlockId]) -> int:
        """The script's next token."""
        prompt = row.tokens[: row.num_prompt]
        begins = [position for position, token_id in enumerate(prompt) if token_id == SCRIPT_BEGIN]
        script = prompt[begins[-1] + 1 :] if begins else array("i")
        if SCRIPT_END in script:
            script = script[: script.index(SCRIPT_END)]
        said = len(row.tokens) - row.num_prompt
        return script[said] if said < len(script) else self._end_token_id


def make_executor(text: str, num_blocks: int, block_size: int, end_token_id: int) -> RowExecutor:
    """From `oracle` or `scripted`, with a speed behind a colon if one is wanted. Raises ConfigError."""
    name, _, speed = text.partition(":")
    match name:
        case "oracle":
            return OracleExecutor(num_blocks, block_size, Speed.parse(speed))
        case "scripted":
            return ScriptedExecutor(end_token_id, Speed.parse(speed))
    raise ConfigError(f"--executor: {text!r} is not known, expected model, oracle or scripted.")
