"""What steps cost so far, in CPU time, and what one of a given size may cost before something is wrong with it.

A prefill of 512 tokens takes a hundred times as long as a decode step, and sixteen threads use sixteen times the time
of the clock: one limit for all steps would end healthy engines. Steps are kept by their work, in powers of two; a step
costs at most in proportion to its work what a smaller one did, and no more than a larger one.

Written by the engine's thread, read by the pulse's: a number that is one step old does no harm.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, final

from pelton.core.step import ScheduledRequest

TIMES_EXPECTED: Final = 10.0
ENOUGH_STEPS: Final = 8  # before them little is known
CONTEXT_OF_A_TOKEN: Final = 4096  # reading this much of the cache counts as a token: it is much less
NUM_CLASSES: Final = 40


def measure_work(scheduled: Iterable[ScheduledRequest], repeat: int) -> int:
    """The size of a step, in tokens; those with a long context before them count more."""
    work = 0
    for part in scheduled:
        end = part.num_computed_tokens + part.num_scheduled_tokens
        work += part.num_scheduled_tokens * (CONTEXT_OF_A_TOKEN + end)
    return 1 + work * repeat // CONTEXT_OF_A_TOKEN


@final
class StepCosts:
    """The costliest step of each class of work."""

    def __init__(self) -> None:
        self._cpu_s = [0.0] * NUM_CLASSES
        self._num_steps = 0

    def add(self, work: int, cpu_s: float) -> None:
        """A step of this work is done."""
        index = min(work.bit_length(), NUM_CLASSES - 1)
        self._cpu_s[index] = max(self._cpu_s[index], cpu_s)
        self._num_steps += 1

    def find_limit(self, work: int) -> float | None:
        """Seconds of CPU time that no healthy step of this work takes; None while too little is known."""
        if self._num_steps < ENOUGH_STEPS:
            return None
        expected = (
            cpu_s * max(1.0, work / (1 << (index - 1)))  # 1 << (index - 1) is the least work of the class
            for index, cpu_s in enumerate(self._cpu_s)
            if cpu_s > 0.0 and index > 0
        )
        return TIMES_EXPECTED * min(expected, default=float("inf"))
