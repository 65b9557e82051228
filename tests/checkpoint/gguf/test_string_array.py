"""The fast walk over strings finds exactly what a slow one finds, whatever their lengths."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.model_files import counted

from pelton.checkpoint.gguf.string_array import walk
from pelton.errors import CheckpointError

pytestmark = pytest.mark.unit

LENGTHS = st.one_of(st.integers(0, 20), st.integers(250, 260), st.integers(510, 520), st.just(70_000))


@given(st.lists(LENGTHS, max_size=60), st.integers(0, 9))
def test_all_strings_are_found(lengths: list[int], before: int) -> None:
    texts = [bytes([97 + i % 26]) * length for i, length in enumerate(lengths)]
    body = b"".join(map(counted, texts))
    array = walk(memoryview(bytes(before) + body + b"rest"), before, len(texts), where="x")
    assert array.end == before + len(body)
    assert [array.raw(i) for i in range(len(array))] == texts
    assert list(array) == [text.decode() for text in texts] == [array[i] for i in range(len(array))]


@given(st.lists(st.integers(0, 300), min_size=1, max_size=40), st.data())
def test_a_cut_anywhere_is_an_error(lengths: list[int], data: st.DataObject) -> None:
    body = b"".join(counted(bytes(length)) for length in lengths)
    cut = data.draw(st.integers(0, len(body) - 1))
    with pytest.raises(CheckpointError, match="x: "):
        walk(memoryview(body[:cut]), 0, len(lengths), where="x")


def test_many_strings_are_one_array() -> None:
    texts = [b"a" * (i % 7) + b"b" * 300 * (i % 1000 == 999) for i in range(100_000)]
    array = walk(memoryview(b"".join(map(counted, texts))), 0, len(texts), where="x")
    assert list(array) == [text.decode() for text in texts]


def test_a_length_in_the_upper_bytes_is_seen() -> None:
    body = counted(b"ab") + b"\x01" + bytes(6) + b"\x01" + b"c" + bytes(40)
    with pytest.raises(CheckpointError, match="string 1 claims 72057594037927937 bytes"):
        walk(memoryview(body), 0, 3, where="x")


def test_slices_and_broken_utf8() -> None:
    array = walk(memoryview(counted(b"a") + counted(b"\xff") + counted(b"\xc3\xa9")), 0, 3, where="x")
    assert array[1:] == ["\ufffd", "\u00e9"]
    assert array.raw(1) == b"\xff"
