"""Search every setting to its end: `make search`, or `python -m tests.exhaustive.run [NAME ...]`.

Settings are searched in as many processes as there are cores. Fails if anything is wrong; a problem is printed with the
shortest path to it that leaving out events finds.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor

from tests.exhaustive.search import Found, search, shorten
from tests.exhaustive.setting import SETTINGS


def search_named(name: str) -> tuple[str, str | None, int, int]:
    """A line about a setting, what is wrong in it, and how many states and transitions it has."""
    logging.disable(logging.WARNING)  # names that give way
    found = search(SETTINGS[name])
    return found.describe(), explain(found), found.num_states, found.num_transitions


def explain(found: Found) -> str | None:
    """What is wrong and how it comes about, or None."""
    if found.problem is None:
        return None
    path = shorten(found.setting, found.path)
    return "\n".join([found.problem, *(f"  {event}" for event in path)])


def main(names: Sequence[str]) -> int:
    """Search the settings of these names, or all; 1 if anything is wrong."""
    num_states = num_transitions = 0
    problems = []
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for line, problem, states, transitions in pool.map(search_named, names or list(SETTINGS)):
            print(line, flush=True)
            num_states += states
            num_transitions += transitions
            problems += [] if problem is None else [problem]
    print(f"{'all':12} {num_states:>9,} states, {num_transitions:,} transitions, {len(problems)} problems")
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
