"""Reads files that are wrong: `python -m tests.file_fuzz.run MINUTES [FIRST_SEED]`. Every reader, one after the other.

A file is read or refused with an error of ours, within a second and 50 MB, whatever is in it. The files of the current
try lie in the folder that is printed, so that what ended the process is there too.
"""

from __future__ import annotations

import itertools
import sys
import tempfile
import time
import tracemalloc
from collections import Counter
from pathlib import Path
from random import Random

from tests.file_fuzz.mutate import mutate
from tests.file_fuzz.targets import TARGETS, Target

from pelton.errors import CheckpointError

MAX_S = 1.0
MAX_BYTES = 50 << 20


def attack(target: Target, folder: Path, seed: int) -> str | None:
    """Read the target's files, one of them changed; the message of the error that came, or None.

    Raises AssertionError for one that took too long or too much, and whatever came out that is no error of ours.
    """
    random = Random(seed)
    wrong = random.choice(sorted(target.files))
    for old in folder.iterdir():
        old.unlink()
    for name, raw in target.files.items():
        (folder / name).write_bytes(mutate(raw, random) if name == wrong else raw)
    tracemalloc.start()
    begin_s = time.perf_counter()
    outcome = None
    try:
        target.read(folder)
    except CheckpointError as error:
        outcome = str(error)
    finally:
        seconds, num_bytes = time.perf_counter() - begin_s, tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert seconds < MAX_S, f"seed {seed}: took {seconds:.1f} s"
    assert num_bytes < MAX_BYTES, f"seed {seed}: took {num_bytes} bytes"
    assert outcome is None or outcome.isprintable(), f"seed {seed}: control characters in {outcome!r}"
    return outcome


def main() -> None:
    """Stops at the first file that does harm, and names its seed."""
    end_s = time.monotonic() + 60 * float(sys.argv[1])
    first = int(sys.argv[2]) if len(sys.argv) > 2 else int(time.time()) * 1000
    outcomes: Counter[tuple[str, str]] = Counter()
    folder = Path(tempfile.mkdtemp(prefix="pelton-fuzz-"))
    print(f"files are in {folder}")
    for seed in itertools.count(first):
        if time.monotonic() > end_s:
            break
        name = sorted(TARGETS)[seed % len(TARGETS)]
        try:
            refusal = attack(TARGETS[name], folder, seed)
        except BaseException:
            print(f"target {name}, seed {seed}, files in {folder}")
            raise
        outcomes[name, "read" if refusal is None else "refused"] += 1
    for (name, outcome), count in sorted(outcomes.items()):
        print(f"{name:16} {outcome:8} {count}")


if __name__ == "__main__":
    main()
