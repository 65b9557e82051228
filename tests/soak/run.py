"""A soak: a real server under load for minutes, its engine killed and stopped again and again, every answer checked.

`python -m tests.soak.run MINUTES [FOLDER]`. Load comes in open loop at LOAD of what was measured at the start, and
in bursts of BURST_TIMES that. Writes soak.json, soak.md and soak.svg into FOLDER (build/soak), and fails if anything
was lost, wrong, crossed or leaked.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from tests.end_to_end.served import Served, serve
from tests.observability.exposition import parse_samples
from tests.server.test_tally import check_law
from tests.soak.ask import TENANTS, Ask, make_ask
from tests.soak.checker import classify, find_miscounts, find_problems
from tests.soak.client import History, ask_once
from tests.soak.report import write_report

LOAD: Final = 0.7
BURST_TIMES: Final = 10
BURST_EVERY_S: Final = 20.0
BURST_S: Final = 0.7
KILL_EVERY_S: Final = 20.0
STOP_EVERY: Final = 3  # every third kill is a stop
SCRAPE_EVERY_S: Final = 1.0
MAX_OPEN: Final = 1500  # connections of the client itself
WARM_UP_S: Final = 5.0
QUIET_TIMEOUT_S: Final = 60.0
FLAGS: Final = (
    *("--executor", "oracle:step_ms=2,token_us=20", "--kv-cache-memory-bytes", "24M", "--max-num-requests", "32"),
    *("--max-num-queued-requests", "256", "--scheduling-policy", "priority", "--no-access-log", "--no-docs-page"),
)


@dataclass(slots=True)
class Soak:
    """What happened, second by second and in sum."""

    minutes: float
    rate_per_s: float = 0.0
    kinds: Counter[str] = field(default_factory=Counter)
    manners: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    num_answers: int = 0
    seen: Counter[str] = field(default_factory=Counter)  # answers by reason, as clients saw them
    num_unseen: int = 0  # answers whose end no client saw
    num_tokens: int = 0
    num_restarts_seen: int = 0
    kills_s: list[tuple[float, str]] = field(default_factory=list)  # since the start
    recoveries_s: list[float] = field(default_factory=list)
    per_second: dict[int, Counter[str]] = field(default_factory=dict)
    memory_mb: list[tuple[float, float]] = field(default_factory=list)  # of the server, since the start
    files: list[int] = field(default_factory=list)  # open in the server, at the start and at the end
    num_scrapes: int = 0
    start_s: float = field(default_factory=time.monotonic)

    def take(self, history: History) -> None:
        """Check one history and count it."""
        kind = classify(history)
        self.kinds[kind] += 1
        self.manners[history.ask.manner] += 1
        second = int(history.end_s - self.start_s)
        self.per_second.setdefault(second, Counter())[kind] += 1
        self.num_answers += len(history.texts)
        if kind == "ok":
            self.seen.update(reason for reasons in history.reasons.values() for reason in reasons)
        elif kind == "refused":  # before its body was read it is one answer, however many it asks for
            self.seen["refused"] += 1
            self.num_unseen += history.ask.n - 1
        else:
            self.num_unseen += history.ask.n
        self.num_tokens += sum(map(len, history.texts.values()))
        for problem in find_problems(history):
            self.problems.append(f"request {history.ask.number} ({history.ask.manner}): {problem}")


class Target:
    """The server under test."""

    def __init__(self, served: Served) -> None:
        self.served = served
        parts = urlsplit(served.url)
        assert parts.hostname is not None
        assert parts.port is not None
        self.host, self.port = parts.hostname, parts.port

    def scrape(self) -> dict[str, float]:
        """The metrics."""
        headers = {"authorization": f"Bearer {next(iter(TENANTS.values()))}"}
        with urllib.request.urlopen(urllib.request.Request(f"{self.served.url}/metrics", headers=headers)) as answer:
            return parse_samples(answer.read().decode())

    def read_memory_mb(self) -> float:
        """Resident memory of the server's process."""
        pages = int(Path(f"/proc/{self.served.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6

    def count_files(self) -> int:
        """Open files of the server's process."""
        return len(os.listdir(f"/proc/{self.served.process.pid}/fd"))


async def measure_capacity(target: Target, seconds: float) -> float:
    """Requests per second that 48 clients in a closed loop get answered."""
    draw = random.Random(1)
    end_s, done = time.monotonic() + seconds, 0

    async def client() -> None:
        nonlocal done
        while time.monotonic() < end_s:
            ask = make_ask(draw.randint(0, 2**40), draw)
            await ask_once(target.host, target.port, ask)
            done += 1

    await asyncio.gather(*(client() for _ in range(48)))
    return done / seconds


async def send_load(target: Target, soak: Soak, seconds: float, seed: int) -> None:
    """Requests in open loop, until `seconds` have passed and all have ended."""
    draw = random.Random(seed)
    tasks: set[asyncio.Task[None]] = set()

    async def one(number: int) -> None:
        soak.take(await ask_once(target.host, target.port, make_ask(number, draw)))

    number, next_s, end_s = 0, time.monotonic(), time.monotonic() + seconds
    while (now_s := time.monotonic()) < end_s:
        is_burst = (now_s - soak.start_s) % BURST_EVERY_S < BURST_S
        rate = soak.rate_per_s * (BURST_TIMES if is_burst else 1)
        next_s = max(next_s + draw.expovariate(rate), now_s - 0.5)
        if next_s > now_s:
            await asyncio.sleep(next_s - now_s)
        if len(tasks) < MAX_OPEN:
            task = asyncio.create_task(one(number))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
            number += 1
    while tasks:
        await asyncio.wait(tasks)


async def hurt(target: Target, soak: Soak, every_s: float) -> None:
    """Kill the engine again and again; every STOP_EVERY-th time stop it."""
    number = 0
    while True:
        await asyncio.sleep(every_s)
        number += 1
        is_stop = number % STOP_EVERY == 0
        try:
            os.kill(target.served.find_engine(), signal.SIGSTOP if is_stop else signal.SIGKILL)
        except (OSError, ValueError):
            continue  # it is being started just now
        soak.kills_s.append((time.monotonic() - soak.start_s, "stop" if is_stop else "kill"))


async def probe_recovery(target: Target, soak: Soak) -> None:
    """One short request after another: the longest wait for the first token around a kill is its recovery."""
    number, seen = 10**9, 0
    while True:
        number += 1
        started_s = time.monotonic()
        history = await ask_once(target.host, target.port, _make_probe(number))
        soak.take(history)
        if len(soak.kills_s) > seen and history.token_times_s:
            killed_s, _ = soak.kills_s[seen]
            last_s = history.token_times_s[-1] - soak.start_s
            if last_s > killed_s and started_s - soak.start_s >= killed_s - 30:
                after = [at - soak.start_s - killed_s for at in history.token_times_s if at - soak.start_s > killed_s]
                if after:
                    soak.recoveries_s.append(max(after[0], _longest_gap(history, killed_s + soak.start_s)))
                    seen = len(soak.kills_s)
        await asyncio.sleep(0.02)


def _make_probe(number: int) -> Ask:
    return Ask(number=number, prompt=f"probe {number}", max_tokens=120, priority=-4)


def _longest_gap(history: History, killed_s: float) -> float:
    """The longest silence of a stream after a kill."""
    times = [at for at in history.token_times_s if at <= killed_s][-1:] + [
        at for at in history.token_times_s if at > killed_s
    ]
    return max((b - max(a, killed_s) for a, b in pairwise(times)), default=0.0)


async def watch(target: Target, soak: Soak) -> None:
    """Scrape, and check that every answer is in one place."""
    last: dict[str, float] = {}
    while True:
        samples = await asyncio.to_thread(target.scrape)
        soak.num_scrapes += 1
        try:
            check_law(samples)
        except AssertionError as error:
            soak.problems.append(f"scrape {soak.num_scrapes}: the law does not hold: {error}")
        for name, value in last.items():
            if ("_total" in name or "_count" in name) and samples.get(name, 0.0) < value:
                soak.problems.append(f"scrape {soak.num_scrapes}: {name} went back from {value} to {samples.get(name)}")
        last = samples
        soak.memory_mb.append((time.monotonic() - soak.start_s, target.read_memory_mb()))
        await asyncio.sleep(SCRAPE_EVERY_S)


async def wait_for_quiet(target: Target) -> dict[str, float]:
    """The scrape of a server in which nothing lives, or the last one, after QUIET_TIMEOUT_S."""
    end_s = time.monotonic() + QUIET_TIMEOUT_S
    while True:
        samples = await asyncio.to_thread(target.scrape)
        is_quiet = not samples["num_requests_running"] and not samples["num_requests_waiting"]
        if (is_quiet and samples["engine_up"]) or time.monotonic() > end_s:
            return samples
        await asyncio.sleep(0.2)


def count_ends(samples: dict[str, float], before: dict[str, float]) -> dict[str, float]:
    """Answers that ended between two scrapes, by reason; all refusals are one."""
    ends: Counter[str] = Counter()
    for key, value in samples.items():
        name, *labels = key.split(" ")
        if name == "request_success_total":
            ends[labels[0]] += int(value - before.get(key, 0.0))
        elif name == "requests_refused_total":
            ends["refused"] += int(value - before.get(key, 0.0))
    return dict(ends)


async def settle(target: Target, soak: Soak, before: dict[str, float]) -> None:
    """Wait until nothing lives, then look for what is left."""
    samples = await wait_for_quiet(target)
    check_law(samples)
    soak.num_restarts_seen = int(samples["engine_restarts_total"])
    if samples["num_requests_running"] or samples["num_requests_waiting"]:
        soak.problems.append("requests are left in the server")
    await asyncio.sleep(1.5)  # for the engine's next heartbeat
    samples = await asyncio.to_thread(target.scrape)
    soak.problems += find_miscounts(count_ends(samples, before), soak.seen, soak.num_unseen)
    if samples["kv_cache_usage_perc"] != 0:
        soak.problems.append(f"blocks are left in use: {samples['kv_cache_usage_perc']}")
    soak.files.append(target.count_files())
    if soak.files[1] > soak.files[0] + 4:
        soak.problems.append(f"{soak.files[1]} files are open, {soak.files[0]} were at the start")


async def soak_server(target: Target, minutes: float, *, kill_every_s: float = KILL_EVERY_S, seed: int = 0) -> Soak:
    """The whole soak on a server that is ready."""
    soak = Soak(minutes)
    capacity = await measure_capacity(target, min(WARM_UP_S, 10 * minutes))
    soak.rate_per_s = LOAD * capacity
    before = await wait_for_quiet(target)
    soak.start_s = time.monotonic()
    soak.files.append(target.count_files())
    works = (hurt(target, soak, kill_every_s), probe_recovery(target, soak), watch(target, soak))
    others = [asyncio.create_task(work) for work in works]
    await send_load(target, soak, 60 * minutes, seed)
    soak.num_unseen += 1  # the probe that is under way
    for other in others:
        other.cancel()
    for ended in await asyncio.gather(*others, return_exceptions=True):
        if isinstance(ended, Exception):
            raise ended
    await settle(target, soak, before)
    return soak


def run(minutes: float, *, kill_every_s: float = KILL_EVERY_S) -> Soak:
    """Start a server, soak it, end it."""
    with tempfile.NamedTemporaryFile("w", suffix=".keys") as keys:
        keys.write("".join(f"{tenant}: {key}\n" for tenant, key in TENANTS.items()))
        keys.flush()
        with serve("oracle", *FLAGS, "--api-keys-file", keys.name) as served:
            soak = asyncio.run(soak_server(Target(served), minutes, kill_every_s=kill_every_s))
            if served.end() != 0:
                soak.problems.append("the server did not end with exit code 0")
            return soak


def main(arguments: list[str]) -> int:
    """The exit code says whether all was well."""
    minutes = float(arguments[0]) if arguments else 5.0
    folder = Path(arguments[1]) if len(arguments) > 1 else Path("build/soak")
    soak = run(minutes)
    print(write_report(soak, folder))
    return 1 if soak.problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
