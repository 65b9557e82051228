"""Bodies: bounded, strict, and errors that say where."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from tests.server.http import in_memory, make_state

from pelton.errors import RequestError
from pelton.server import json_body
from pelton.server.json_body import MAX_DEPTH, decode_json, is_deeper_than

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "empty"),
        (b"{", "ends too early, after 1 bytes"),
        (b'{"a" 1}', "byte 5"),
        (b'{"a": NaN}', "byte 6"),
        (b'{"a": -Infinity}', "byte 7"),
        (b'{"a": 1e999}', "out of range"),
        (b'{"a": "\xff"}', "byte 0xff at position 7"),
        (b'{"a": "\\ud83d"}', "surrogate"),
        (b'{"a": 1} {}', "trailing"),
        (b"[" * 100_000, f"deeper than {MAX_DEPTH}"),
        (b"[" * 65 + b"]" * 65, f"deeper than {MAX_DEPTH}"),
        (b'{"a":' * 65 + b"1" + b"}" * 65, f"deeper than {MAX_DEPTH}"),
        (b'{"a": ' + b"9" * 6000 + b"}", "out of range"),
    ],
    ids=lambda v: str(v)[:24],
)
def test_what_is_not_json_is_refused(body: bytes, words: str) -> None:
    with pytest.raises(RequestError) as caught:
        decode_json(body)
    assert words in str(caught.value)


def test_nesting_of_any_depth_that_ends_early_is_refused() -> None:
    for depth in range(1, 1200):
        with pytest.raises(RequestError):
            decode_json(b'{"a": ' + b"[" * depth)


def test_depth_is_counted_exactly() -> None:
    decode_json(b"[" * MAX_DEPTH + b"]" * MAX_DEPTH)
    assert not is_deeper_than([], 1)
    assert is_deeper_than({"a": [[]]}, 2)
    assert not is_deeper_than({"a": [[]]}, 3)


async def send(content: bytes | AsyncIterator[bytes], **headers: str) -> tuple[int, str]:
    async with in_memory(make_state(max_body_bytes=2048)) as http:
        headers = {"content-type": "application/json", **headers}
        response = await http.post("/v1/completions", content=content, headers=headers)
        error = response.json()["error"]
        return response.status_code, error["message"]


def test_a_large_body_is_refused_by_its_declared_length() -> None:
    status, message = asyncio.run(send(b"x" * 10_000_000))
    assert (status, "10000000 bytes, at most 2048" in message) == (413, True)


def test_a_large_body_is_refused_while_it_is_read() -> None:
    given = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal given
        while True:
            given += 1024
            yield b"x" * 1024

    status, message = asyncio.run(send(endless()))
    assert (status, "more than 2048 bytes" in message) == (413, True)
    assert given <= 4096


@pytest.mark.parametrize(("pause_s", "status"), [(0.02, 400), (0.3, 408)])
def test_a_body_must_come_at_some_speed(monkeypatch: pytest.MonkeyPatch, pause_s: float, status: int) -> None:
    """Each part of 100 bytes gives another 0.1 s."""
    monkeypatch.setattr(json_body, "FIRST_BYTES_S", 0.2)
    monkeypatch.setattr(json_body, "MIN_BYTES_PER_S", 1000)

    async def drip() -> AsyncIterator[bytes]:
        for _ in range(20):
            yield b" " * 100
            await asyncio.sleep(pause_s)

    async def run() -> None:
        state = make_state()
        async with in_memory(state) as http:
            response = await http.post("/v1/completions", content=drip())
        assert response.status_code == status
        assert state.admission.is_empty()

    asyncio.run(run())


def test_another_content_type_is_refused() -> None:
    status, message = asyncio.run(send(b"a=b", **{"content-type": "application/x-www-form-urlencoded"}))
    assert (status, "application/json" in message) == (415, True)


def test_a_body_that_is_no_object_is_refused() -> None:
    assert asyncio.run(send(b"[1]"))[1] == "The body is a list, expected a JSON object."
