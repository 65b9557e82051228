"""Load on a server: streamed requests in a closed loop of so many users, or at Poisson times.

A closed loop's user sends its next request when its answer is whole; an open loop sends at times that do not depend on
the server (`rate` a second, from a seed), which is what shows how queues grow. One thread, one selector, no decoding.
After a read it pauses for half a millisecond, so that it wakes a few times a step and not once for every user.
"""

from __future__ import annotations

import json
import random
import selectors
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, final

from pelton.bench.stream_client import Answer, StreamClient
from pelton.errors import TransferError

CONNECT_TIMEOUT_S: Final = 30.0
SILENCE_TIMEOUT_S: Final = 300.0
GATHER_S: Final = 0.0005  # pause after a read: a step's events for all users come within a millisecond
PATHS: Final = {"chat": "/v1/chat/completions", "completion": "/v1/completions"}

# A token each, with the space before them, in nearly every vocabulary.
WORD_LIST: Final = (
    "time year people way day man thing woman life child world school state family student group country "
    "problem hand part place case week company system program question work government number night point home "
    "water room mother area money story fact month lot right study book eye job word business issue side kind "
    "head house service friend"
)
WORDS: Final = tuple(WORD_LIST.split())


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where requests go."""

    host: str
    port: int
    model: str
    kind: str = "chat"  # or "completion"
    base: str = ""  # path in front of /v1
    api_key: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What is sent. With `rate`, `concurrency` is without meaning."""

    concurrency: int
    num_requests: int
    num_prompt_words: int
    num_output_tokens: int
    rate: float | None = None  # requests per second
    seed: int = 0


def make_request(target: Target, load: Load, number: int) -> bytes:
    """Request `number`: words in an order that no other request has, greedy, end-of-sequence ignored."""
    words = random.Random(load.seed * 1_000_003 + number).choices(WORDS, k=load.num_prompt_words)
    text = " ".join(words)
    body: dict[str, Any] = {
        "model": target.model,
        "max_tokens": load.num_output_tokens,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
        "ignore_eos": True,
    }
    body |= {"messages": [{"role": "user", "content": text}]} if target.kind == "chat" else {"prompt": text}
    payload = json.dumps(body).encode()
    key = f"authorization: Bearer {target.api_key}\r\n" if target.api_key else ""
    head = (
        f"POST {target.base}{PATHS[target.kind]} HTTP/1.1\r\nhost: {target.host}:{target.port}\r\n{key}"
        f"content-type: application/json\r\ncontent-length: {len(payload)}\r\n\r\n"
    )
    return head.encode() + payload


def make_arrivals(load: Load) -> list[float]:
    """Seconds after the start at which an open loop sends: exponential gaps with mean 1 / rate."""
    assert load.rate is not None, "a closed loop has no arrival times"
    gaps, now_s, times_s = random.Random(load.seed), 0.0, []
    for _ in range(load.num_requests):
        now_s += gaps.expovariate(load.rate)
        times_s.append(now_s)
    return times_s


@final
class Generator:
    """Runs one load; made for one `run`."""

    def __init__(
        self,
        target: Target,
        load: Load,
        *,
        clock: Callable[[], float] = time.perf_counter,
        on_answer: Callable[[], None] = lambda: None,
    ) -> None:
        self._target = target
        self._load = load
        self._clock = clock
        self._on_answer = on_answer
        self._selector = selectors.DefaultSelector()
        self._idle: list[StreamClient] = []
        self._requests = [make_request(target, load, number) for number in range(load.num_requests)]
        self._answers: list[Answer] = []

    def run(self) -> list[Answer]:
        """All answers, in the order in which they ended. Raises TransferError if the server cannot be reached."""
        try:
            if self._load.rate is None:
                self._run_closed()
            else:
                self._run_open(make_arrivals(self._load))
        finally:
            for key in list(self._selector.get_map().values()):
                key.data.close()
            for client in self._idle:
                client.close()
            self._selector.close()
        return self._answers

    def _run_closed(self) -> None:
        waiting = iter(self._requests)
        for request in (next(waiting) for _ in range(min(self._load.concurrency, len(self._requests)))):
            self._send(request)
        while self._selector.get_map():
            for _ in range(self._wait(SILENCE_TIMEOUT_S)):
                request_or_none = next(waiting, None)
                if request_or_none is not None:
                    self._send(request_or_none)

    def _run_open(self, arrivals_s: list[float]) -> None:
        start_s = self._clock()
        for arrival_s, request in zip(arrivals_s, self._requests, strict=True):
            while (left_s := start_s + arrival_s - self._clock()) > 0:
                if self._selector.get_map():
                    self._wait(left_s, is_silence_fine=True)
                else:
                    time.sleep(left_s)
            self._send(request)
        while self._selector.get_map():
            self._wait(SILENCE_TIMEOUT_S)

    def _send(self, request: bytes) -> None:
        try:
            client = self._idle.pop() if self._idle else self._connect()
            client.send(request, self._clock())
        except OSError as error:
            where = f"{self._target.host}:{self._target.port}"
            raise TransferError(f"{where}: the request cannot be sent ({error}). Does the server run?") from error
        self._selector.register(client.socket, selectors.EVENT_READ, client)

    def _connect(self) -> StreamClient:
        return StreamClient(self._target.host, self._target.port, CONNECT_TIMEOUT_S)

    def _wait(self, timeout_s: float, *, is_silence_fine: bool = False) -> int:
        """Take in what comes within `timeout_s`; the number of answers that ended."""
        num_ended = 0
        if len(self._selector.get_map()) > 1:
            time.sleep(GATHER_S)
        ready = self._selector.select(timeout_s)
        if not ready and not is_silence_fine:
            raise TransferError(f"the server sent nothing for {timeout_s:.0f} s, with answers outstanding.")
        now_s = self._clock()
        for key, _ in ready:
            client: StreamClient = key.data
            answer = client.receive(now_s)
            if answer is None:
                continue
            num_ended += 1
            self._selector.unregister(client.socket)
            self._answers.append(answer)
            self._on_answer()
            if answer.error is None:
                self._idle.append(client)
            else:
                client.close()
        return num_ended
