"""What a long prompt does to streams beside it: the time between tokens of eight of them, alone and meanwhile.

`python -m tests.soak.beside MODEL [PROMPT_TOKENS]` starts a server with MODEL and prints a JSON line: milliseconds
between two tokens without and with a prompt of so many tokens beside them, and what the prompt took.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from itertools import pairwise
from typing import Any, Final
from urllib.parse import urlsplit

from tests.end_to_end.served import serve
from tests.soak.ask import Ask
from tests.soak.client import History, ask_once

NUM_STREAMS: Final = 8
STREAM_TOKENS: Final = 2000
ALONE_S: Final = 8.0
WARM_UP_S: Final = 4.0


def make_stream(number: int) -> Ask:
    """A stream that runs until it is left."""
    return Ask(number=number, prompt=f"{number} is a number that", max_tokens=STREAM_TOKENS, seed=number)


def make_long(num_tokens: int) -> Ask:
    """A prompt of about that many tokens, unlike any other."""
    draw = random.Random(time.time_ns())
    return Ask(number=10**6, prompt=" ".join(draw.choices(("tree", "house", "sea"), k=num_tokens)), max_tokens=1)


def find_gaps_ms(histories: list[History], begin_s: float, end_s: float) -> list[float]:
    """Milliseconds between neighbouring tokens of all streams in an interval."""
    gaps = []
    for history in histories:
        times = [at for at in history.token_times_s if begin_s <= at <= end_s]
        gaps += [1000 * (b - a) for a, b in pairwise(times)]
    return sorted(gaps)


def describe(gaps: list[float]) -> dict[str, float]:
    """Mean, median and 99th percentile. Tokens may come in pairs, so the mean says most."""
    return {
        "mean": round(sum(gaps) / len(gaps), 1),
        "p50": round(gaps[len(gaps) // 2], 1),
        "p99": round(gaps[int(0.99 * (len(gaps) - 1))], 1),
    }


async def measure(host: str, port: int, num_tokens: int) -> dict[str, Any]:
    """Streams, then the prompt beside them."""
    histories: list[History] = []
    tasks = [asyncio.create_task(ask_once(host, port, make_stream(n), histories.append)) for n in range(NUM_STREAMS)]
    await ask_once(host, port, make_long(300))  # so that the pace knows what prompts cost
    await asyncio.sleep(WARM_UP_S)
    alone_s = time.monotonic()
    await asyncio.sleep(ALONE_S)
    begin_s = time.monotonic()
    long = await ask_once(host, port, make_long(num_tokens))
    end_s = time.monotonic()
    are_running = not any(task.done() for task in tasks)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return {
        "prompt_tokens": (long.usage or {}).get("prompt_tokens"),
        "prompt_s": round(end_s - begin_s, 1),
        "alone_ms": describe(find_gaps_ms(histories, alone_s, begin_s)),
        "beside_ms": describe(find_gaps_ms(histories, begin_s, end_s)),
        "streams_ran_throughout": are_running,
    }


def main(arguments: list[str]) -> int:
    """Print the line."""
    num_tokens = int(arguments[1]) if len(arguments) > 1 else 8000
    with serve(arguments[0], "--no-access-log", "--max-model-len", str(num_tokens + 4096)) as served:
        parts = urlsplit(served.url)
        assert parts.hostname is not None
        assert parts.port is not None
        print(json.dumps(asyncio.run(measure(parts.hostname, parts.port, num_tokens))))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
