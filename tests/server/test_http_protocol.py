"""What two servers could read in two ways is refused, and what is refused has a reason."""

from __future__ import annotations

import h11
import pytest

from pelton.server.http_protocol import (
    MAX_HEADER_BYTES,
    MAX_HEADERS,
    MAX_SMALL_PARTS,
    MIN_MEAN_BYTES,
    StrictConnection,
)

pytestmark = pytest.mark.unit
GET = b"GET / HTTP/1.1\r\nhost: a\r\n"
POST = b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n"


def read(data: bytes) -> list[object]:
    """Every event in `data`."""
    connection = StrictConnection(h11.SERVER, MAX_HEADER_BYTES)
    connection.receive_data(data)
    events = []
    while (event := connection.next_event()) not in (h11.NEED_DATA, h11.PAUSED):
        events.append(event)
    return events


@pytest.mark.parametrize(
    ("data", "words", "status"),
    [
        (POST + b"content-length: 3\r\n\r\n", "both Content-Length and", 400),
        (POST.replace(b"1.1", b"1.0") + b"\r\n", "needs HTTP/1.1", 400),
        (b"PRI * HTTP/2.0\r\n\r\n", "another version", 400),
        (GET + b"a: b\r\n" * MAX_HEADERS + b"\r\n", f"more than {MAX_HEADERS} headers", 431),
        (GET + b"a: " + b"b" * MAX_HEADER_BYTES + b"\r\n\r\n", "bytes of headers", 431),
        (GET.replace(b"/ ", b"/" * MAX_HEADER_BYTES + b" ") + b"\r\n", "bytes of headers", 431),
        (POST + b"\r\n" + b"1\r\na\r\n" * (MAX_SMALL_PARTS + 1), "chunks of a few bytes", 400),
    ],
)
def test_a_request_is_refused(data: bytes, words: str, status: int) -> None:
    with pytest.raises(h11.RemoteProtocolError, match=words) as caught:
        read(data)
    assert caught.value.error_status_hint == status


def test_what_clients_do_is_taken() -> None:
    assert len(read(GET + b"a: b\r\n" * (MAX_HEADERS - 1) + b"\r\n")) == 2
    chunk = b"%x\r\n%s\r\n" % (MIN_MEAN_BYTES, b"a" * MIN_MEAN_BYTES)
    assert len(read(POST + b"\r\n" + chunk * (2 * MAX_SMALL_PARTS) + b"0\r\n\r\n")) == 2 * MAX_SMALL_PARTS + 2
    assert len(read(POST + b"\r\n" + b"1\r\na\r\n" * MAX_SMALL_PARTS + b"0\r\n\r\n")) == MAX_SMALL_PARTS + 2
