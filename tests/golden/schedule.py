"""A day's schedule as a small file: its first steps to read, and a hash after every fifty to find where two part.

`python -m tests.golden.schedule` writes the files again after a change of policy; the diff is reviewed.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import msgspec
from tests.simulation.traffic import DAYS, Replay

from pelton.core.step import SchedulerOutput

FOLDER = Path(__file__).parent / "schedule"
NUM_SHOWN = 30
STEPS_PER_HASH = 50


def get_path(day: str) -> Path:
    """Where a day's schedule is kept."""
    return FOLDER / f"{day}.json"


def record(day: str) -> dict[str, object]:
    """Replay a day and describe its schedule."""
    replay = Replay(DAYS[day]())
    digest = hashlib.sha256()
    shown: list[str] = []
    hashes: list[str] = []
    num_steps = 0
    for step in replay.steps():
        digest.update(msgspec.msgpack.encode(step))
        num_steps += 1
        if num_steps <= NUM_SHOWN:
            shown.append(describe(step))
        if num_steps % STEPS_PER_HASH == 0:
            hashes.append(digest.hexdigest()[:8])
    return {
        "num_steps": num_steps,
        "num_preemptions": replay.scheduler.num_preemptions,
        "sha256": digest.hexdigest(),
        "first_steps": shown,
        f"sha256_every_{STEPS_PER_HASH}_steps": hashes,
    }


def describe(step: SchedulerOutput) -> str:
    """A step on a line: request:computed+scheduled, then who lost a row."""
    parts = " ".join(
        f"{part.request_id}:{part.num_computed_tokens}+{part.num_scheduled_tokens}" for part in step.scheduled
    )
    return parts + (f" | freed {' '.join(step.finished)}" if step.finished else "")


def main() -> None:
    """Write all files."""
    FOLDER.mkdir(exist_ok=True)
    for day in DAYS:
        get_path(day).write_text(json.dumps(record(day), indent=1) + "\n")


if __name__ == "__main__":
    main()
