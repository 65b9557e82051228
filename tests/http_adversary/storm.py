"""Sends cases over a few connections at once and judges every answer: `python -m tests.http_adversary.storm MINUTES`.

Run like that it attacks `pelton serve` around the oracle until the time is over, and prints what was answered.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterable, Iterator

import httpx
from tests.end_to_end.served import Served, serve
from tests.http_adversary.bodies import Case, RandomCases, find_fields, single_cases
from tests.http_adversary.target import INNOCENT, Target, find_problem
from tests.http_adversary.wire import Answer, Line, post

NUM_LINES = 8
FLAGS = (
    "--executor", "oracle", "--kv-cache-memory-bytes", "8M", "--max-model-len", "512", "--max-num-requests", "16",
    "--max-num-queued-requests", "300", "--no-access-log", "--log-level", "error",
)  # fmt: skip

# Fields whose value makes another one wrong.
ALSO = {
    "max_completion_tokens": ("max_tokens",),
    "max_tokens": ("min_tokens",),
    "messages": ("prompt",),
    "tools": ("prompt",),
    "chat_template_kwargs": ("prompt",),
    "prompt": ("max_tokens",),
}


def find_wrong_param(case: Case, answer: Answer) -> str | None:
    """What is wrong with the name that a 400 gives, where only one field can be meant."""
    if answer.status != httpx.codes.BAD_REQUEST or not case.fields:
        return None
    error = answer.json()["error"]
    param = error["param"]
    allowed = {*case.fields, *(other for name in case.fields for other in ALSO.get(name, ()))}
    if param is None or param.partition("[")[0].partition(".")[0] in allowed:
        return None
    return f"the error names {param!r}, expected one of {sorted(allowed)}"


async def storm(target: Target, cases: Iterable[Case], *, num_lines: int = NUM_LINES) -> list[str]:
    """Send all cases; what was wrong with the answers, at most a hundred things."""
    problems: list[str] = []
    left: Iterator[Case] = iter(cases)

    async def work() -> None:
        line = Line(target.url)
        for case in left:
            if len(problems) >= 100:
                break
            answer = await line.ask(post(case.path, case.body))
            target.statuses[answer.status] = target.statuses.get(answer.status, 0) + 1
            problem = find_problem(answer.status, answer.body) or find_wrong_param(case, answer)
            if problem is not None:
                problems.append(f"{problem}: {case.path} {case.body[:300]!r} -> {answer.status} {answer.body[:300]!r}")
        await line.close()

    async with asyncio.TaskGroup() as group:
        for _ in range(num_lines):
            group.create_task(work())
    return problems


async def aim(served: Served, http: httpx.AsyncClient) -> tuple[Target, dict[str, list[str]]]:
    """A running server as a target, and the fields that it says it has."""
    first = (await http.post("/v1/completions", json=INNOCENT)).json()
    fields = find_fields((await http.get("/openapi.json")).json())
    return Target(served.url, http, first["choices"][0]["token_ids"]), fields


async def storm_for(served: Served, minutes: float, seed: int) -> list[str]:
    """First every single wrong value, then drawn ones until the time is over."""
    end_s = time.monotonic() + 60 * minutes

    def endless(fields: dict[str, list[str]]) -> Iterator[Case]:
        yield from single_cases(fields)
        drawn = RandomCases(fields, seed)
        while time.monotonic() < end_s:
            yield drawn.make()

    async with httpx.AsyncClient(base_url=served.url, timeout=30) as http:
        target, fields = await aim(served, http)
        async with target.with_innocents():
            problems = await storm(target, endless(fields))
        counts = ", ".join(f"{status}: {count}" for status, count in sorted(target.statuses.items()))
        total = sum(target.statuses.values())
        print(f"{total} hostile requests, {target.num_innocents} innocent ones unharmed; answers {counts}")
        return problems


def main() -> int:
    """0 if every answer was as it may be."""
    minutes, seed = float(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else int(time.time())
    print(f"seed {seed}")
    with serve("oracle", *FLAGS) as served:
        problems = asyncio.run(storm_for(served, minutes, seed))
        print("\n".join(problems))
        return 1 if problems or served.end() != 0 else 0


if __name__ == "__main__":
    sys.exit(main())
