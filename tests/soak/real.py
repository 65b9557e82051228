"""The soak with a real model: every answer must be what the same request got from a server that nobody hurt.

`python -m tests.soak.real MODEL MINUTES [FOLDER]`. Greedy and seeded requests of a fixed set are answered
once in peace, then again and again, in any company, while the engine is killed and stopped.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Final

from tests.end_to_end.served import serve
from tests.soak.ask import Ask
from tests.soak.client import History, ask_once
from tests.soak.report import write_report
from tests.soak.run import Soak, Target, hurt, settle, wait_for_quiet, watch

NUM_ASKS: Final = 24
NUM_CLIENTS: Final = 10
KILL_EVERY_S: Final = 20.0
TOPICS: Final = ("a stack", "a queue", "prime numbers", "a parser", "a cache", "the sum of a list", "dates", "a graph")


def make_asks() -> list[Ask]:
    """Beginnings of code, half of them greedy and half sampled."""
    draw = random.Random(5)
    return [
        Ask(
            number=number,
            prompt=f'"""A module about {draw.choice(TOPICS)}."""\n\n\ndef example_{number % 7}('
            + "x, " * (number % 40),
            max_tokens=draw.randint(20, 160),
            seed=None if number % 2 == 0 else number,
            n=2 if number % 11 == 0 else 1,
            stream=number % 3 != 0,
        )
        for number in range(NUM_ASKS)
    ]


async def answer_in_peace(target: Target, asks: list[Ask]) -> list[Ask]:
    """The same requests, each with what it was answered."""
    answered = []
    for ask in asks:
        history = await ask_once(target.host, target.port, ask)
        assert not history.broken, history.broken
        expected = tuple((history.texts.get(i, ""), history.reasons[i][0]) for i in range(ask.n))
        answered.append(replace(ask, expected=expected))
    return answered


async def soak_model(target: Target, minutes: float) -> Soak:
    """The whole soak on a server that is ready."""
    soak = Soak(minutes)
    asks = await answer_in_peace(target, make_asks())
    before = await wait_for_quiet(target)
    soak.start_s = time.monotonic()
    soak.files.append(target.count_files())
    works = (hurt(target, soak, KILL_EVERY_S), watch(target, soak))
    others = [asyncio.create_task(work) for work in works]
    draw, number = random.Random(6), 0

    async def client() -> None:
        nonlocal number
        while time.monotonic() < soak.start_s + 60 * minutes:
            number += 1
            ask = replace(draw.choice(asks), number=number)
            history = await ask_once(target.host, target.port, ask)
            note_recovery(soak, history)
            soak.take(history)

    await asyncio.gather(*(client() for _ in range(NUM_CLIENTS)))
    for other in others:
        other.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    await settle(target, soak, before)
    return soak


def note_recovery(soak: Soak, history: History) -> None:
    """If the engine was hurt while this stream ran, how long it was silent."""
    times = history.token_times_s
    for at_s, _ in soak.kills_s:
        killed_s = at_s + soak.start_s
        after = [at for at in times if at > killed_s]
        if times and times[0] < killed_s and after:
            soak.recoveries_s.append(after[0] - killed_s)


def run(model: str, minutes: float) -> Soak:
    """Start a server, soak it, end it."""
    with serve(model, "--no-access-log", "--max-num-requests", "16") as served:
        soak = asyncio.run(soak_model(Target(served), minutes))
        if served.end(signal.SIGTERM) != os.EX_OK:
            soak.problems.append("the server did not end with exit code 0")
        return soak


def main(arguments: list[str]) -> int:
    """The exit code says whether all was well."""
    model, minutes = arguments[0], float(arguments[1])
    folder = Path(arguments[2]) if len(arguments) > 2 else Path("build/soak-real")
    soak = run(model, minutes)
    print(write_report(soak, folder))
    return 1 if soak.problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
