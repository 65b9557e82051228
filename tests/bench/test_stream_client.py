"""What a client makes of bytes, however they are cut: a socket pair in place of a server."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pelton.bench.stream_client import Answer, StreamClient

pytestmark = pytest.mark.unit

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def chunk(*events: bytes) -> bytes:
    body = b"".join(b"data: " + event + b"\n\n" for event in events)
    return f"{len(body):x}\r\n".encode() + body + b"\r\n"


ROLE = b'{"choices":[{"delta":{"role":"assistant","content":""}}],"usage":null}'
FIRST = b'{"choices":[{"delta":{"content":"\\"a"}}],"usage":null}'
SECOND = b'{"choices":[{"delta":{"content":" say \\"content\\":\\"x"}}],"usage":null}'
FINISH = b'{"choices":[{"delta":{},"finish_reason":"length"}],"usage":null}'
USAGE = b'{"choices":[],"usage":{"prompt_tokens":11,"completion_tokens":3,"total_tokens":14}}'
END = b"0\r\n\r\n"
WHOLE = HEAD + chunk(ROLE, FIRST) + chunk(SECOND) + chunk(SECOND, FINISH) + chunk(USAGE) + chunk(b"[DONE]") + END


class Pair:
    """A client whose server is the test."""

    def __init__(self) -> None:
        ours, self.server = socket.socketpair()
        client = StreamClient.__new__(StreamClient)
        client.socket = ours
        client._timeout_s = 5.0
        self.client = client

    def close(self) -> None:
        self.client.close()
        self.server.close()


@pytest.fixture
def pair() -> Iterator[Pair]:
    made = Pair()
    yield made
    made.close()


def feed(pair: Pair, pieces: list[bytes]) -> Answer:
    """The answer to a request whose bytes come in these pieces, one each second from second 1 on."""
    pair.client.send(b"GET", 0.0)
    assert pair.server.recv(10) == b"GET"
    for second, piece in enumerate(pieces, 1):
        pair.server.sendall(piece)
        answer = pair.client.receive(float(second))
        if answer is not None:
            assert second == len(pieces), "ended before its end"
            return answer
    raise AssertionError("the answer has no end")


def test_times_and_counts_are_of_reads_with_text(pair: Pair) -> None:
    pieces = [HEAD, chunk(ROLE), chunk(FIRST), chunk(SECOND, SECOND), chunk(FINISH, USAGE), chunk(b"[DONE]") + END]
    answer = feed(pair, pieces)
    assert answer == Answer(0.0, times_s=[3.0, 4.0], counts=[1, 2], num_prompt_tokens=11, num_output_tokens=3)
    assert (answer.ttft_s, answer.e2e_s) == (3.0, 4.0)


@given(cuts=st.sets(st.integers(1, len(WHOLE) - 1), max_size=40))
def test_every_text_counts_once_however_bytes_are_cut(cuts: set[int]) -> None:
    borders = [0, *sorted(cuts), len(WHOLE)]
    pair = Pair()
    try:
        answer = feed(pair, [WHOLE[a:b] for a, b in pairwise(borders)])
    finally:
        pair.close()
    assert answer.error is None
    assert sum(answer.counts) == 3
    assert (answer.num_prompt_tokens, answer.num_output_tokens) == (11, 3)


def test_a_connection_is_used_again(pair: Pair) -> None:
    assert feed(pair, [WHOLE]).error is None
    assert feed(pair, [WHOLE[:300], WHOLE[300:]]).error is None


@pytest.mark.parametrize(
    ("pieces", "error"),
    [
        (
            [b"HTTP/1.1 503 X\r\nContent-Length: 31\r\n\r\n", b'{"error":{"message":"is full"}}'],
            "status 503: is full",
        ),
        ([b"HTTP/1.1 404 X\r\ncontent-length: 4\r\n\r\nlost"], "status 404: lost"),
        ([HEAD + chunk(FIRST) + chunk(b'{"error":{"message":"broke"}}') + chunk(b"[DONE]") + END], "stream ended with"),
        ([HEAD + chunk(FIRST) + chunk(b"[DONE]") + END], "had no usage"),
        ([HEAD + chunk(ROLE) + chunk(USAGE) + chunk(b"[DONE]") + END], "had no text"),
    ],
)
def test_answers_that_are_none(pair: Pair, pieces: list[bytes], error: str) -> None:
    found = feed(pair, pieces).error
    assert found is not None
    assert error in found


def test_a_server_that_goes_away(pair: Pair) -> None:
    pair.client.send(b"GET", 0.0)
    pair.server.sendall(HEAD + chunk(FIRST))
    assert pair.client.receive(1.0) is None
    assert pair.client.receive(1.5) is None, "nothing has come"
    pair.server.close()
    answer = pair.client.receive(2.0)
    assert answer is not None
    assert answer.error is not None
    assert "connection" in answer.error


def test_it_connects(unused_listener: socket.socket) -> None:
    host, port = unused_listener.getsockname()
    client = StreamClient(host, port, 5.0)
    try:
        assert client.socket.getpeername() == (host, port)
        assert client.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    finally:
        client.close()


@pytest.fixture
def unused_listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener
