"""Sound pickles are read. Hostile ones: tests/attacks/test_pytorch.py."""

from __future__ import annotations

import pytest
from tests.pytorch_files import ORDERED_DICT, state_dict, storage, tensor, text

from pelton.checkpoint.pytorch.state_dict import read_state_dict
from pelton.errors import CheckpointError

pytestmark = pytest.mark.unit


def test_a_dict_of_tensors() -> None:
    found = read_state_dict(state_dict({"b": tensor(), "a": tensor((6,), (1,))}), "x")
    assert {name: each.shape for name, each in found.items()} == {"b": (2, 3), "a": (6,)}


def test_values_that_are_kept_and_fetched() -> None:
    kept = b"\x80\x02}(" + text("a") + tensor() + b"q\x05" + text("b") + b"h\x05r\x00\x01\x00\x00"
    found = read_state_dict(kept + text("c") + b"j\x00\x01\x00\x00u.", "x")
    assert found["a"] is found["b"] is found["c"]


def test_versions_of_modules_have_no_meaning() -> None:
    versions = b"}" + text("_metadata") + b"}" + text("") + b"}" + text("version") + b"K\x01sssb"
    found = read_state_dict(b"\x80\x02" + ORDERED_DICT + b"(" + text("a") + tensor() + b"u" + versions + b".", "x")
    assert list(found) == ["a"]


def test_numbers_of_every_size() -> None:
    for opcodes in (b"K\x06", b"M\x06\x00", b"\x8a\x01\x06", b"J\x06\x00\x00\x00"):
        stored = storage().replace(b"J\x06\x00\x00\x00", opcodes)
        assert read_state_dict(state_dict({"a": tensor(stored=stored)}), "x")["a"].storage.numel == 6


def test_a_message_says_where() -> None:
    with pytest.raises(
        CheckpointError, match=r"^model\.bin: data\.pkl, byte 10: holds a list, .*Save model\.state_dict"
    ):
        read_state_dict(b"\x80\x02}(" + text("a") + b"]u.", "model.bin: data.pkl")
