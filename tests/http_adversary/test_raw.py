"""Bytes that no client library would send: smuggling, torn chunks, slow heads, half-closed connections, odd targets."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from tests.http_adversary.target import Target, under_attack
from tests.http_adversary.wire import ask, chunked, connect, exchange, get, is_whole, post, read_answers

from pelton.server import http_protocol

pytestmark = pytest.mark.cpu  # real servers and processes

GOOD = b'{"prompt": [5, 6], "max_tokens": 2}'
HIDDEN = get("/version")  # what a smuggler hides in a body


def run_attack(attack: Callable[[Target], Coroutine[Any, Any, None]], **settings: Any) -> None:
    """`attack` on a server that answers others meanwhile."""

    async def run() -> None:
        async with under_attack(**settings) as target, target.with_innocents():
            await attack(target)

    asyncio.run(asyncio.wait_for(run(), 60))


def head(*lines: str, end: str = "\r\n\r\n") -> bytes:
    return "\r\n".join(lines).encode("latin-1") + end.encode()


CHUNKED = ("POST /v1/completions HTTP/1.1", "host: a", "content-type: application/json", "transfer-encoding: chunked")

TOKENIZE = ("POST /tokenize HTTP/1.1", "host: a")
WEBSOCKET = ("connection: upgrade", "upgrade: websocket", "sec-websocket-key: a", "sec-websocket-version: 13")

# Name: (bytes, statuses that may be answered, how many answers at most). None: cut off without a word.
RAW: dict[str, tuple[bytes, set[int | None], int]] = {
    "length and chunks": (head(*CHUNKED, "content-length: 6") + b"0\r\n\r\n" + HIDDEN, {400}, 1),
    "two lengths": (head(*TOKENIZE, "content-length: 0", f"content-length: {len(HIDDEN)}") + HIDDEN, {400}, 1),
    "a list of lengths": (head(*TOKENIZE, f"content-length: 0, {len(HIDDEN)}") + HIDDEN, {400}, 1),
    "a signed length": (head(*TOKENIZE, "content-length: +5") + b"hello", {400}, 1),
    "a negative length": (head(*TOKENIZE, "content-length: -1") + HIDDEN, {400}, 1),
    "a length of 2^64": (head(*TOKENIZE, "content-length: 18446744073709551616"), {413}, 1),
    "a length of 5000 digits": (head(*TOKENIZE, "content-length: " + "9" * 5000), {400, 413}, 1),
    "an octal length": (head(*TOKENIZE, "content-length: 0x5") + b"hello", {400}, 1),
    "two encodings": (head(*CHUNKED, "transfer-encoding: chunked") + b"0\r\n\r\n" + HIDDEN, {400, 501}, 1),
    "an unknown encoding": (head(*CHUNKED[:3], "transfer-encoding: xchunked") + HIDDEN, {400, 501}, 1),
    "gzip and chunks": (head(*CHUNKED[:3], "transfer-encoding: gzip, chunked") + HIDDEN, {400, 501}, 1),
    "chunks in HTTP/1.0": (head("POST /tokenize HTTP/1.0", *CHUNKED[1:]) + b"0\r\n\r\n" + HIDDEN, {400}, 1),
    "a blank before the colon": (head(*TOKENIZE, "content-length : 5") + b"hello", {400}, 1),
    "a blank before the name": (head("GET /version HTTP/1.1", " host: a"), {400}, 1),
    "a header without colon": (head("GET /version HTTP/1.1", "host: a", "nonsense"), {400}, 1),
    "NUL in a header": (head("GET /version HTTP/1.1", "host: a", "x: a\0b"), {400}, 1),
    "CR in a header": (head("GET /version HTTP/1.1", "host: a", "x: a\rb: c"), {400}, 1),
    "no host": (head("GET /version HTTP/1.1"), {400}, 1),
    "two hosts": (head("GET /version HTTP/1.1", "host: a", "host: b"), {400}, 1),
    "a host with a path": (head("GET /version HTTP/1.1", "host: a/?x="), {400}, 1),
    "a host with a user": (head("GET /version HTTP/1.1", "host: a@b"), {400}, 1),
    "a host of bytes": (head("GET /version HTTP/1.1", "host: \xff\xfe"), {400}, 1),
    "no HTTP at all": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 64, {400}, 1),
    "HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", {400}, 1),
    "HTTP/0.9": (b"GET /version\r\n\r\n", {400}, 1),
    "HTTP/9.9": (head("GET /version HTTP/9.9", "host: a"), {400, 200}, 1),
    "a method of bytes": (head("G\xcbT /version HTTP/1.1", "host: a"), {400}, 1),
    "an unknown method": (head("BREW /version HTTP/1.1", "host: a"), {405}, 1),
    "CONNECT": (head("CONNECT a:443 HTTP/1.1", "host: a"), {400, 404, 405}, 1),
    "TRACE": (head("TRACE /version HTTP/1.1", "host: a"), {405}, 1),
    "an absolute target": (head("GET http://b/version HTTP/1.1", "host: a"), {404}, 1),
    "a slash too many": (head("GET /version/ HTTP/1.1", "host: b"), {404}, 1),
    "an asterisk": (head("OPTIONS * HTTP/1.1", "host: a"), {404}, 1),
    "dots in the path": (head("GET /v1/models/../../version HTTP/1.1", "host: a"), {404}, 1),
    "encoded dots": (head("GET /v1/models/%2e%2e%2f%2e%2e/etc/passwd HTTP/1.1", "host: a"), {404}, 1),
    "a path that is no UTF-8": (head("GET /v1/models/%ff%fe HTTP/1.1", "host: a"), {404}, 1),
    "NUL in the path": (head("GET /v1/models/%00 HTTP/1.1", "host: a"), {404}, 1),
    "a line break in the path": (head("GET /v1/models/%0d%0aset-cookie:%20a HTTP/1.1", "host: a"), {404}, 1),
    "a path of 60,000 bytes": (head("GET /v1/models/" + "a" * 60_000 + " HTTP/1.1", "host: a"), {404}, 1),
    "a path of 100,000 bytes": (head("GET /" + "a" * 100_000 + " HTTP/1.1", "host: a"), {431}, 1),
    "a header of 10 MB": (head("GET /version HTTP/1.1", "host: a", "x: " + "a" * 10_000_000), {431, None}, 1),
    "1,000 headers": (head("GET /version HTTP/1.1", "host: a", *["x: y"] * 1000), {431}, 1),
    "a chunk without size": (head(*CHUNKED) + b"\r\n\r\n", {400}, 1),
    "a negative chunk": (head(*CHUNKED) + b"-1\r\nab\r\n0\r\n\r\n", {400}, 1),
    "a chunk in hexadecimal": (head(*CHUNKED) + b"0x2\r\nab\r\n0\r\n\r\n", {400}, 1),
    "a chunk of 2^64": (head(*CHUNKED) + b"10000000000000000\r\nab\r\n0\r\n\r\n", {400, None}, 1),
    "a chunk longer than it says": (head(*CHUNKED) + b"2\r\nabcd\r\n0\r\n\r\n", {400}, 1),
    "a chunk extension without end": (head(*CHUNKED) + b"2;" + b"a" * 200_000, {400, 431, None}, 1),
    "trailers": (head(*CHUNKED) + chunked([GOOD])[:-2] + b"authorization: Bearer x\r\n\r\n", {200}, 1),
    "a websocket": (get("/version", *WEBSOCKET), {200}, 1),
    "an unknown expectation": (post("/tokenize", b'{"prompt": "a"}', "expect: 200-ok"), {200, 417}, 1),
    "a body for a GET": (head("GET /version HTTP/1.1", "host: a", f"content-length: {len(HIDDEN)}") + HIDDEN, {200}, 1),
}


@pytest.fixture(scope="module")
def loop_and_target() -> Any:
    with asyncio.Runner() as runner:
        opened = under_attack()
        target = runner.run(opened.__aenter__())
        yield runner, target
        runner.run(target.check_unharmed())
        runner.run(opened.__aexit__(None, None, None))


@pytest.mark.parametrize("name", RAW)
def test_odd_bytes_get_at_most_one_answer_and_the_right_one(loop_and_target: Any, name: str) -> None:
    runner, target = loop_and_target
    sent, expected, most = RAW[name]

    async def run() -> None:
        answers = await exchange(target.url, sent, timeout_s=3)
        statuses = [answer.status for answer in answers] or [None]
        assert len(statuses) <= most, f"{name}: a hidden request was answered: {statuses}"
        assert set(statuses) <= expected, f"{name}: {answers}"
        for answer in answers:
            target.judge(answer.status, answer.body, name, is_protocol=True)
            assert "set-cookie" not in answer.headers
        await target.ask_innocently()

    runner.run(run())


def test_a_request_in_pieces_of_one_byte_is_answered() -> None:
    async def attack(target: Target) -> None:
        request = post("/v1/completions", GOOD)
        (answer,) = await exchange(target.url, *(request[i : i + 1] for i in range(len(request))))
        assert answer.status == 200

    run_attack(attack)


@pytest.mark.parametrize(("num_chunks", "status"), [(4000, 200), (5000, 400), (100_000, 400)])
def test_chunks_of_one_byte_are_read_up_to_a_bound(num_chunks: int, status: int) -> None:
    async def attack(target: Target) -> None:
        text = GOOD[:-1] + b" " * (num_chunks - len(GOOD)) + b"}"
        answers = await exchange(target.url, head(*CHUNKED), chunked([text[i : i + 1] for i in range(len(text))]))
        assert [answer.status for answer in answers] in ([status], [] if status == 400 else None)  # it may be reset

    run_attack(attack)


def test_endless_chunks_are_refused_and_cut_off() -> None:
    async def attack(target: Target) -> None:
        piece = chunked([b"a" * 1000] * 100)[: -len(b"0\r\n\r\n")]
        answers = await exchange(target.url, head(*CHUNKED), *[piece] * 40)
        assert [answer.status for answer in answers] in ([413], [])  # it may be reset

    run_attack(attack, max_body_bytes=100_000)


def test_requests_sent_ahead_are_answered_in_order() -> None:
    async def attack(target: Target) -> None:
        _, writer = connection = await connect(target.url)
        bodies = [b'{"prompt": [%d], "max_tokens": 1, "return_token_ids": true}' % (5 + i) for i in range(20)]
        writer.write(b"".join(post("/v1/completions", body) for body in bodies) + get("/nothing", "connection: close"))
        answers = read_answers(await connection[0].read(-1))
        assert [answer.status for answer in answers] == [200] * 20 + [404]
        prompts = [answer.json()["choices"][0]["prompt_token_ids"] for answer in answers[:-1]]
        assert prompts == [[5 + i] for i in range(20)]
        writer.close()

    run_attack(attack)


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/chat/completions", "/tokenize", "/v1/prefixes"])
def test_a_body_that_ends_early_is_nobodys_request(path: str) -> None:
    async def attack(target: Target) -> None:
        request = post(path, GOOD)
        for cut in (len(request) - len(GOOD), len(request) - 1):
            answers = await exchange(target.url, request[:cut], half_close=True, timeout_s=2)
            assert answers == []

    run_attack(attack)


def test_a_client_that_closes_its_side_is_taken_to_have_left() -> None:
    async def attack(target: Target) -> None:
        body = b'{"prompt": [5, 6], "max_tokens": 150, "ignore_eos": true, "stream": true}'
        reader, writer = await connect(target.url)
        writer.write(post("/v1/completions", body))
        writer.write_eof()
        await asyncio.wait_for(reader.read(-1), 5)
        writer.close()

    run_attack(attack)


def test_heads_that_drip_are_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_protocol.HttpProtocol, "head_timeout_s", 0.3)

    async def drip(target: Target, first: bytes, drop: bytes) -> float:
        reader, writer = await connect(target.url)
        writer.write(first)
        started_s = time.monotonic()
        reading = asyncio.create_task(reader.read(-1))
        while not reading.done() and time.monotonic() - started_s < 5:
            if drop and not writer.is_closing():
                writer.write(drop)
            await asyncio.wait({reading}, timeout=0.02)
        ended_s = time.monotonic() - started_s
        assert reading.done(), f"{first!r} and {drop!r} keep a connection open"
        received = b""
        with contextlib.suppress(ConnectionError):  # what drips on is reset
            received = await reading
        writer.close()
        answers = read_answers(received) if is_whole(received) else []
        assert [answer.status for answer in answers if answer.status != 200] in ([408], [])
        return ended_s

    async def attack(target: Target) -> None:
        firsts = [b"", b"GET /version HTTP/1.1\r\n", get("/version") + b"GET /"]
        ended = await asyncio.gather(*(drip(target, first, drop) for first in firsts for drop in (b"", b"x")))
        assert max(ended) < 3

    run_attack(attack)


def test_many_idle_connections_keep_nobody_out() -> None:
    async def attack(target: Target) -> None:
        idle = [await connect(target.url) for _ in range(200)]
        answer = await ask(target.url, post("/v1/completions", GOOD))
        assert answer.status == 200
        for _, writer in idle:
            writer.close()
            await writer.wait_closed()

    run_attack(attack)


def test_a_broken_chunk_after_the_answer_began_cuts_the_client_off() -> None:
    async def attack(target: Target) -> None:
        reader, writer = await connect(target.url)
        writer.write(head(*CHUNKED, "expect: 100-continue") + b"1\r\n{\r\nzz\r\n")
        received = await asyncio.wait_for(reader.read(-1), 5)
        assert [answer.status for answer in read_answers(received)] == [400]
        writer.close()

    run_attack(attack)
