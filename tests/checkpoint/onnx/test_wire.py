"""Numbers and text of protocol buffers, as the package that defines them writes them."""

from __future__ import annotations

import pytest

from pelton.checkpoint.onnx.wire import BYTES, VARINT, Kind, Wire
from pelton.conversion.onnx_proto import message
from pelton.errors import CheckpointError

pytestmark = pytest.mark.unit

KIND = Kind("Thing", {1: (VARINT, BYTES), 2: (BYTES,)}, frozenset({1}), most=5)


def wire(raw: bytes) -> Wire:
    return Wire(memoryview(raw), "file")


@pytest.mark.parametrize("value", [0, 1, 127, 128, 300, (1 << 63) - 1, -1, -(1 << 63)])
def test_integers_come_back_one_by_one_and_packed(value: int) -> None:
    single = message([(1, value)])
    packed = message([(1, single[1:] * 2)])
    for raw, expected in ((single, [value]), (packed, [value, value])):
        reader = wire(raw)
        assert reader.integers(reader.collect(KIND, 0, len(raw))[1], 16) == expected


def test_text_comes_back() -> None:
    raw = message([(2, "h\u00e9")])
    reader = wire(raw)
    assert reader.text(reader.collect(KIND, 0, len(raw))[2][0]) == "h\u00e9"


def test_packed_integers_are_bounded() -> None:
    raw = message([(1, bytes(17))])
    reader = wire(raw)
    with pytest.raises(CheckpointError, match="more than 16 numbers"):
        reader.integers(reader.collect(KIND, 0, len(raw))[1], 16)


def test_fields_are_bounded() -> None:
    raw = message([(1, 0)] * 6)
    with pytest.raises(CheckpointError, match="more than 5 fields"):
        wire(raw).collect(KIND, 0, len(raw))


def test_a_number_of_more_than_64_bits_is_refused() -> None:
    raw = b"\x08" + b"\xff" * 9 + b"\x02"
    with pytest.raises(CheckpointError, match="does not end"):
        wire(raw).collect(KIND, 0, len(raw))
