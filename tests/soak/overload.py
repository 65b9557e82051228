"""Ten times too much: what a server still answers, how fast it says no, and how a polite tenant fares beside a flood.

`python -m tests.soak.overload MINUTES` starts the oracle and prints a JSON line: tokens per second of whole and right
answers, at best (closed loop) and at ten times the requests that gave that (open loop); milliseconds until a refusal;
milliseconds to the first token of a tenant that asks for one thing at a time, alone and while another sends fifty times
as much.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import tempfile
import time
from typing import Any, Final

from tests.end_to_end.served import serve
from tests.soak.ask import TENANTS, Ask
from tests.soak.checker import classify, find_problems
from tests.soak.client import History, ask_once
from tests.soak.run import Target

FLAGS: Final = (
    *("--executor", "oracle:step_ms=25,token_us=100", "--kv-cache-memory-bytes", "24M", "--max-num-requests", "32"),
    *("--max-num-queued-requests", "64", "--no-access-log", "--no-docs-page"),
)
TIMES: Final = 10
FLOOD_TIMES: Final = 50
PEAK_S: Final = 8.0
NUM_CLIENTS: Final = 48
NUM_POLITE: Final = 200
MAX_OPEN: Final = 800  # of the client: what it cannot open counts as not offered


def make_ask(number: int, draw: random.Random, tenant: str) -> Ask:
    """Short prompts, some tens of tokens."""
    return Ask(
        number=number,
        prompt=f"{draw.random()} of {number}",
        max_tokens=draw.randint(10, 60),
        stream=draw.random() < 0.5,
        tenant=tenant,
    )


class Ledger:
    """What came of all requests of a phase."""

    def __init__(self) -> None:
        self.num_tokens = 0
        self.refused_ms: list[float] = []
        self.num_ok = 0
        self.problems: list[str] = []

    def take(self, history: History) -> None:
        """Check and count."""
        self.problems += find_problems(history)
        kind = classify(history)
        if kind == "ok":
            self.num_ok += 1
            self.num_tokens += sum(map(len, history.texts.values()))
        elif kind == "refused":
            self.refused_ms.append(1000 * (history.end_s - history.start_s))


async def closed_loop(target: Target, ledger: Ledger, seconds: float, tenant: str) -> None:
    """So many clients, one request after the other."""
    draw, end_s = random.Random(2), time.monotonic() + seconds

    async def client() -> None:
        while time.monotonic() < end_s:
            ledger.take(await ask_once(target.host, target.port, make_ask(draw.getrandbits(40), draw, tenant)))

    await asyncio.gather(*(client() for _ in range(NUM_CLIENTS)))


async def open_loop(target: Target, ledger: Ledger, seconds: float, rate_per_s: float, tenant: str) -> int:
    """Requests at a rate, whatever becomes of them. How many were sent."""
    draw, tasks, sent = random.Random(3), set[asyncio.Task[None]](), 0
    next_s, end_s = time.monotonic(), time.monotonic() + seconds

    async def one() -> None:
        ledger.take(await ask_once(target.host, target.port, make_ask(draw.getrandbits(40), draw, tenant)))

    while (now_s := time.monotonic()) < end_s:
        next_s = max(next_s + draw.expovariate(rate_per_s), now_s - 0.2)
        await asyncio.sleep(max(0.0, next_s - now_s))
        if len(tasks) < MAX_OPEN:
            task = asyncio.create_task(one())
            tasks.add(task)
            task.add_done_callback(tasks.discard)
            sent += 1
    while tasks:
        await asyncio.wait(tasks)
    return sent


async def ask_politely(host: str, port: int, ledger: Ledger) -> list[float]:
    """Milliseconds to the first token of one request after the other."""
    draw, waits = random.Random(4), []
    for number in range(NUM_POLITE):
        ask = Ask(number=number, prompt=f"please {draw.random()}", max_tokens=3, tenant="bob")
        history = await ask_once(host, port, ask)
        ledger.take(history)
        if history.token_times_s:
            waits.append(1000 * (history.token_times_s[0] - history.start_s))
        await asyncio.sleep(0.05)
    return sorted(waits)


async def ask_politely_elsewhere(target: Target, ledger: Ledger) -> list[float]:
    """The same from a process of its own, whose clock does not stand still while others ask."""
    arguments = (sys.executable, "-m", "tests.soak.overload", "polite", target.host, str(target.port))
    child = await asyncio.create_subprocess_exec(*arguments, stdout=asyncio.subprocess.PIPE)
    said, _ = await child.communicate()
    told = json.loads(said)
    ledger.problems += told["problems"]
    waits: list[float] = told["waits_ms"]
    return waits


def at(values: list[float], share: float) -> float | None:
    """The value below which `share` of sorted `values` lie."""
    return round(values[min(len(values) - 1, int(share * len(values)))], 1) if values else None


async def measure(target: Target, minutes: float) -> dict[str, Any]:
    """All phases."""
    peak, flood, polite = Ledger(), Ledger(), Ledger()
    await closed_loop(target, Ledger(), 2.0, "ann")
    await closed_loop(target, peak, PEAK_S, "ann")
    memory_mb = target.read_memory_mb()
    rate = TIMES * peak.num_ok / PEAK_S
    sent = await open_loop(target, flood, 60 * minutes, rate, "ann")
    alone_ms = await ask_politely_elsewhere(target, polite)
    flooding = asyncio.create_task(open_loop(target, flood_2 := Ledger(), 60.0, FLOOD_TIMES * 4.0, "ann"))
    await asyncio.sleep(1.0)
    beside_ms = await ask_politely_elsewhere(target, polite)
    flooding.cancel()
    await asyncio.gather(flooding, return_exceptions=True)
    refused_ms = sorted(flood.refused_ms)
    problems = peak.problems + flood.problems + polite.problems + flood_2.problems
    return {
        "peak_tokens_per_s": round(peak.num_tokens / PEAK_S),
        "offered_per_s": round(rate),
        "sent_per_s": round(sent / (60 * minutes)),
        "goodput_of_peak": round(flood.num_tokens / (60 * minutes) / (peak.num_tokens / PEAK_S), 3),
        "refused": len(refused_ms),
        "refusal_ms": {"p50": at(refused_ms, 0.5), "p99": at(refused_ms, 0.99)},
        "polite_ttft_ms_alone": {"p50": at(alone_ms, 0.5), "p99": at(alone_ms, 0.99)},
        "polite_ttft_ms_beside_flood": {"p50": at(beside_ms, 0.5), "p99": at(beside_ms, 0.99)},
        "memory_mb": [round(memory_mb, 1), round(target.read_memory_mb(), 1)],
        "problems": problems[:10],
    }


def run(minutes: float) -> dict[str, Any]:
    """Start a server, measure, end it."""
    with tempfile.NamedTemporaryFile("w", suffix=".keys") as keys:
        keys.write("".join(f"{tenant}: {key}\n" for tenant, key in TENANTS.items()))
        keys.flush()
        with serve("oracle", *FLAGS, "--api-keys-file", keys.name, "--tenant-share", "0.9") as served:
            return asyncio.run(measure(Target(served), minutes))


def main(arguments: list[str]) -> int:
    """Print the line; the exit code says whether every answer was right."""
    if arguments[:1] == ["polite"]:
        ledger = Ledger()
        waits = asyncio.run(ask_politely(arguments[1], int(arguments[2]), ledger))
        print(json.dumps({"waits_ms": waits, "problems": ledger.problems}))
        return 0
    found = run(float(arguments[0]) if arguments else 1.0)
    print(json.dumps(found))
    return 1 if found["problems"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
