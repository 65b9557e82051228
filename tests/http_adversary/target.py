"""The server under attack, seen from outside, and innocents whose tokens must stay what they are."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import httpx
from tests.engine.fakes import compute_continuation
from tests.observability.exposition import parse_samples
from tests.server.engine_process import serving

INNOCENT = {"prompt": [5, 6, 7], "max_tokens": 20, "ignore_eos": True, "return_token_ids": True, "temperature": 0}
LEAKS = re.compile(
    rb"/home/|/usr/|site-packages|0x[0-9a-f]{8,}|Traceback|File \"|<[a-z_.]+ object at|\.py\b", re.IGNORECASE
)
# What may be told to a client that did something wrong, or came at a bad time.
LEGAL = {400, 401, 403, 404, 405, 408, 413, 415, 417, 429, 431, 501, 503}


@dataclass
class Target:
    """A running server. `expected` are the innocents' tokens."""

    url: str
    http: httpx.AsyncClient
    expected: list[int]
    num_innocents: int = 0
    statuses: dict[int, int] = field(default_factory=dict)

    async def ask_innocently(self) -> None:
        """One request of somebody else, which must get exactly its tokens."""
        answer = await self.http.post("/v1/completions", json=INNOCENT)
        if answer.status_code != httpx.codes.OK:
            raise AssertionError(f"an innocent got {answer.status_code}: {answer.text[:300]}")
        token_ids = answer.json()["choices"][0]["token_ids"]
        if token_ids != self.expected:
            raise AssertionError(f"an innocent got other tokens: {token_ids}")
        self.num_innocents += 1

    @contextlib.asynccontextmanager
    async def with_innocents(self) -> AsyncIterator[None]:
        """Innocents all the time, and afterwards everything as it was."""

        async def live() -> None:
            while True:
                await self.ask_innocently()
                await asyncio.sleep(0.02)

        innocent = asyncio.create_task(live())
        try:
            yield
        finally:
            if innocent.done():
                innocent.result()
            innocent.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await innocent
        await self.check_unharmed()

    async def check_unharmed(self) -> None:
        """Raise AssertionError unless the engine is the same, answers well, and nothing is left of anybody."""
        await self.ask_innocently()
        for _ in range(1000):
            samples = parse_samples((await self.http.get("/metrics")).text)
            if samples["engine_restarts_total"] or not samples["engine_up"]:
                raise AssertionError("the engine was started again")
            if not samples["num_requests_running"] + samples["num_requests_waiting"]:
                return
            await asyncio.sleep(0.01)
        raise AssertionError("requests are live though nobody waits for an answer")

    def judge(self, status: int, body: bytes, what: Any, *, is_protocol: bool = False) -> None:
        """Count an answer; raise AssertionError for one that no client should ever get."""
        self.statuses[status] = self.statuses.get(status, 0) + 1
        problem = find_problem(status, body, is_protocol=is_protocol)
        if problem is not None:
            raise AssertionError(f"{problem}: {status} {body[:400]!r} for {str(what)[:1000]}")


def find_problem(status: int, body: bytes, *, is_protocol: bool = False) -> str | None:
    """What is wrong with an answer; `is_protocol`: the request had no fields that could be named."""
    if status < 300:
        return None
    if status not in LEGAL:
        return "an answer that may not be"
    if LEAKS.search(body):
        return "the answer tells of the server's inside"
    return None if is_protocol and not body else find_shape_problem(status, body, is_protocol=is_protocol)


def find_shape_problem(status: int, body: bytes, *, is_protocol: bool) -> str | None:
    """How an error differs from OpenAI's form."""
    try:
        error = httpx.Response(status, content=body).json()["error"]
    except (ValueError, KeyError, TypeError):
        return "an error of another shape"
    if set(error) != {"message", "type", "param", "code"} or not (
        isinstance(error["message"], str) and error["message"]
    ):
        return "an error of another shape"
    names_param = isinstance(error["param"], str)
    names_body = error["message"].startswith("The body ")
    if status == 400 and not is_protocol and not names_param and not names_body:
        return "a 400 that does not name its parameter"
    return None


@contextlib.asynccontextmanager
async def under_attack(**settings: Any) -> AsyncIterator[Target]:
    """A server in this process, with an engine in another."""
    async with serving(max_num_queued_requests=100, **settings) as (_, _, http):
        target = Target(str(http.base_url), http, compute_continuation([5, 6, 7], 20))
        await target.ask_innocently()
        yield target
