"""Where the time of a step goes: the host, every kind of op, waiting for other threads; prefill and decode apart.

What an op costs is taken on one thread of the program; the host is what is left of the time that the loop took:
schedule, gather, update, and the clock reads of the profile itself, about 25 ns an op.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

from pelton.backends.executable import Executable
from pelton.bench.offline import Workload, compute_num_tokens, make_run
from pelton.bench.record import Row
from pelton.engine.loop import EngineLoop
from pelton.errors import ConfigError

HOST = "host"
PROFILE_SEED = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseProfile:
    """Seconds of all steps of a phase, by part, the largest first."""

    phase: str
    num_steps: int
    total_s: float
    parts_s: dict[str, float]

    def make_rows(self, batch: int) -> Iterator[Row]:
        """One row for the whole step and one for each part."""
        yield {
            "batch": batch,
            "phase": self.phase,
            "part": "step",
            "ms_per_step": 1000 * self.total_s / self.num_steps,
            "percent": 100.0,
        }
        for part, seconds in self.parts_s.items():
            yield {
                "batch": batch,
                "phase": self.phase,
                "part": part,
                "ms_per_step": 1000 * seconds / self.num_steps,
                "percent": 100 * seconds / self.total_s,
            }


def profile_offline(
    engine: EngineLoop, executable: Executable, workload: Workload, *, vocab_size: int
) -> list[PhaseProfile]:
    """Prefill until every request has its first token, then the steps in which all decode. Raises ConfigError if the
    backend keeps no profile."""
    num_steps_before = engine.stats().num_steps
    phases: list[PhaseProfile] = []
    parts_of_decode: dict[str, float] = {}

    def end_prefill() -> None:
        seconds = time.perf_counter() - start_s
        phases.append(make_phase("prefill", engine.stats().num_steps - num_steps_before, seconds, executable.profile()))
        executable.start_profile()

    def end_decode() -> None:
        parts_of_decode.update(executable.profile())

    num_tokens = compute_num_tokens(engine, workload)
    executable.start_profile()
    start_s = time.perf_counter()
    run = make_run(
        engine,
        workload,
        num_tokens,
        seed=PROFILE_SEED,
        vocab_size=vocab_size,
        on_decode=end_prefill,
        on_first_end=end_decode,
    )
    if not parts_of_decode:
        raise ConfigError("--profile: this backend does not take the time of its ops. Use --backend cpu.")
    return [*phases, make_phase("decode", len(run.step_s), sum(run.step_s), parts_of_decode)]


def make_phase(phase: str, num_steps: int, total_s: float, parts_s: dict[str, float]) -> PhaseProfile:
    """The parts with the host among them, in the order of their size."""
    parts = {**parts_s, HOST: max(0.0, total_s - sum(parts_s.values()))}
    ordered = dict(sorted(parts.items(), key=lambda item: -item[1]))
    return PhaseProfile(phase=phase, num_steps=num_steps, total_s=total_s, parts_s=ordered)
