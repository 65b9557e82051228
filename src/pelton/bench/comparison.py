"""Two engines on the same work, in turns: ours, theirs, then theirs, ours, with the machine measured in between.

Both are processes that were loaded once (`PeerProcess`); while one is measured the other is frozen, and while the
machine is measured both are. A block, a turn of each, during which the machine changed its state, or somebody else took
CPU time, says nothing about engines: it is dropped and counted. Who was faster has no part in that; only a decode that
is lost in the noise of its prefill cannot count either.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Protocol, final

from pelton.bench.calibrate import Calibration
from pelton.bench.cpu_time import CpuTime
from pelton.errors import TransferError

MAX_BANDWIDTH_CHANGE: Final = 0.15
MAX_STEAL: Final = 0.01
MAX_OTHER: Final = 0.10  # of a calibration's CPU time, by ticks of 10 ms
WARM_UP_OUTPUT: Final = 4
SIDES: Final = ("ours", "theirs")  # in this order in even blocks, in the other in odd ones


class Contestant(Protocol):
    """The part of a `PeerProcess` that a comparison uses."""

    def ask(self, request: dict[str, Any]) -> dict[str, Any]: ...
    def freeze(self) -> None: ...
    def thaw(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """`batch` requests of `depth + prompt` random ids from first_id to last_id, `output` tokens after the first."""

    batch: int
    prompt: int
    output: int
    depth: int = 0
    first_id: int = 1000
    last_id: int = 20000

    @property
    def num_prefill_tokens(self) -> int:
        return self.batch * (self.depth + self.prompt)

    @property
    def num_decode_tokens(self) -> int:
        return self.batch * self.output


@dataclass(frozen=True, slots=True, kw_only=True)
class Leg:
    """One engine's turn, in seconds."""

    side: str
    prefill_s: float
    decode_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A leg of each, and the machine before, between and after them. `dropped`: why it does not count."""

    work: Work
    legs: tuple[Leg, ...]
    calibrations: tuple[Calibration, ...]
    steal_share: float
    dropped: str | None

    def get_seconds(self, side: str, metric: str) -> float:
        """The seconds of the leg of `side` for "prefill" or "decode"."""
        leg = next(leg for leg in self.legs if leg.side == side)
        return leg.prefill_s if metric == "prefill" else leg.decode_s

    def to_json(self) -> dict[str, Any]:
        """Plain values for a file."""
        return asdict(self)


def find_reason_to_drop(calibrations: Sequence[Calibration], steal_share: float) -> str | None:
    """Why legs between these calibrations cannot be compared, or None."""
    states = [each.state for each in calibrations]
    if len(set(states)) > 1:
        return f"the barrier went from {states[0]} to {next(s for s in states if s != states[0])}"
    if states[0] == "disturbed":
        return "something else ran: threads that met at a barrier were not running"
    speeds = [each.all_threads.read_bytes_per_s for each in calibrations]
    if max(speeds) > min(speeds) * (1 + MAX_BANDWIDTH_CHANGE):
        return f"read bandwidth was between {min(speeds) / 1e9:.1f} and {max(speeds) / 1e9:.1f} GB/s"
    other_share = max(each.other_share for each in calibrations)
    if other_share > MAX_OTHER:
        return f"other processes took {other_share:.0%} of the CPU time of a calibration"
    if steal_share > MAX_STEAL:
        return f"{steal_share:.1%} of the CPU time was stolen"
    return None


def find_lost_leg(legs: Sequence[Leg]) -> str | None:
    """Why these legs have no ratio, or None: decode is the difference of two runs, which may be below their noise."""
    for leg in legs:
        if min(leg.prefill_s, leg.decode_s) <= 0:
            return f"decode of {leg.side} was lost in the noise of prefill; decode more tokens"
    return None


@final
class Comparison:
    """Runs blocks. Both engines are loaded and frozen when it is made, and after every call."""

    def __init__(
        self,
        ours: Contestant,
        theirs: Contestant,
        *,
        calibrate: Callable[[], Calibration],
        read_cpu_time: Callable[[], CpuTime],
        on_leg: Callable[[], None] = lambda: None,
    ) -> None:
        self._sides = {"ours": ours, "theirs": theirs}
        self._calibrate = calibrate
        self._read_cpu_time = read_cpu_time
        self._on_leg = on_leg

    def warm_up(self, work: Work) -> None:
        """Let both meet the shapes of `work` once: some engines compile or choose for each."""
        for side in self._sides:
            self._run_leg(side, work, seed=0, output=min(work.output, WARM_UP_OUTPUT))

    def run_block(self, work: Work, number: int) -> Block:
        """The legs of block `number`. Both have the same ids; no two blocks have."""
        calibrations = [self._calibrate()]
        before = self._read_cpu_time()
        legs: list[Leg] = []
        for side in SIDES if number % 2 == 0 else reversed(SIDES):
            legs.append(self._run_leg(side, work, seed=1 + number, output=work.output))
            calibrations.append(self._calibrate())
        steal_share = self._read_cpu_time().steal_share(before)
        return Block(
            work=work,
            legs=tuple(legs),
            calibrations=tuple(calibrations),
            steal_share=steal_share,
            dropped=find_reason_to_drop(calibrations, steal_share) or find_lost_leg(legs),
        )

    def _run_leg(self, side: str, work: Work, *, seed: int, output: int) -> Leg:
        engine = self._sides[side]
        engine.thaw()
        try:
            answer = engine.ask({**asdict(work), "output": output, "seed": seed})
        finally:
            engine.freeze()
        try:
            leg = Leg(side=side, prefill_s=float(answer["prefill_s"]), decode_s=float(answer["decode_s"]))
        except (KeyError, TypeError, ValueError) as error:
            raise TransferError(f"{side}: answered {answer}, expected prefill_s and decode_s in seconds.") from error
        self._on_leg()
        return leg
