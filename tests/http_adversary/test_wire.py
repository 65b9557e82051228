"""The reader of answers reads what servers send."""

from __future__ import annotations

import pytest
from tests.http_adversary.wire import chunked, read_answers

pytestmark = pytest.mark.unit


def test_answers_one_after_the_other_are_read() -> None:
    first = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nab"
    second = b"HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked([b"c", b"de"])
    answers = read_answers(b"HTTP/1.1 100 Continue\r\n\r\n" + first + second)
    assert [(a.status, a.body) for a in answers] == [(200, b"ab"), (404, b"cde")]


@pytest.mark.parametrize("cut", range(1, 60))
def test_an_answer_that_is_cut_short_is_noticed(cut: int) -> None:
    whole = b"HTTP/1.1 404 Not Found\r\ntransfer-encoding: chunked\r\n\r\n" + chunked([b"de"])
    assert len(whole) > 60
    with pytest.raises(EOFError):
        read_answers(whole[:cut])
