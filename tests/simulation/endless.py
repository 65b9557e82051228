"""Simulates the server with one seed after the other: `python -m tests.simulation.endless MINUTES [FIRST_SEED]`."""

from __future__ import annotations

import itertools
import sys
import time
from collections import Counter

from tests.simulation.test_server import simulate
from tests.simulation.virtual_loop import run_virtually


def main() -> None:
    """Stops at the first run that goes wrong, and names its seed."""
    end_s = time.monotonic() + 60 * float(sys.argv[1])
    first = int(sys.argv[2]) if len(sys.argv) > 2 else int(time.time()) * 1000
    ends: Counter[str] = Counter()
    for seed in itertools.count(first):
        if time.monotonic() > end_s:
            print(f"{seed - first} runs from seed {first}: {dict(ends)}")
            return
        try:
            ends.update(run_virtually(simulate(seed)))
        except BaseException:
            print(f"seed {seed}")
            raise


if __name__ == "__main__":
    main()
