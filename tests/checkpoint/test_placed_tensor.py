"""Tensors with strides come out in order; those without are views."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pelton.checkpoint.contract import TensorInfo
from pelton.checkpoint.mapped_file import MappedFile
from pelton.checkpoint.placed_tensor import PlacedTensor, Record, count_span, gather_rows, is_row_major
from pelton.checkpoint.weight import Conversion

pytestmark = pytest.mark.unit


@given(st.lists(st.integers(0, 4), max_size=4), st.data())
def test_strides_as_numpy_has_them(shape: list[int], data: st.DataObject) -> None:
    whole = np.arange(int(np.prod(shape)), dtype=np.uint16).reshape(shape)
    view = whole.transpose(data.draw(st.permutations(range(len(shape)))))
    strides = [stride // 2 for stride in view.strides]
    if view.size:
        assert is_row_major(view.shape, strides) == view.flags.c_contiguous
        assert count_span(view.shape, strides) == view.size
        num_rows = view.size // (view.shape[-1] if shape else 1)
        begin = data.draw(st.integers(0, num_rows))
        end = data.draw(st.integers(begin, num_rows))
        rows = gather_rows(whole.reshape(1, -1).view(np.uint8), view.shape, strides, 2, begin, end)
        assert rows.tobytes() == np.ascontiguousarray(view).reshape(num_rows, -1)[begin:end].tobytes()
    else:
        assert is_row_major(view.shape, strides)
        assert count_span(view.shape, strides) == 0


def test_rows_are_views_unless_they_have_strides(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(bytes(range(30)))
    file = MappedFile(tmp_path / "x")
    info = TensorInfo("t", (2, 3), "F32", 24)
    plain = PlacedTensor(info, file, 3).rows()
    assert isinstance(plain, np.ndarray)
    assert np.shares_memory(plain, file.data)
    assert plain.shape == (2, 12)
    transposed = PlacedTensor(info, file, 3, strides=(1, 2))
    rows = transposed.rows()
    assert isinstance(rows, Conversion)
    expected = file.data[3:27].view("<u4").reshape(3, 2).T
    assert rows.make().tobytes() == expected.tobytes() == transposed.flat().tobytes()
    assert np.shares_memory(rows.sources[0], file.data)
    other = PlacedTensor(TensorInfo("t", (2, 2), "F32", 16), file, 3, strides=(1, 2)).rows()
    assert isinstance(other, Conversion)
    assert rows.recipe != other.recipe


def test_a_record_is_checked_once(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(bytes(8))
    checks: list[str] = []
    record = Record(0, 8, lambda: checks.append("checked"))
    placed = PlacedTensor(TensorInfo("t", (8, 1), "U8", 8), MappedFile(tmp_path / "x"), 0, record=record)
    rows = placed.rows()
    assert isinstance(rows, Conversion)
    assert not checks
    assert np.shares_memory(rows.rows(2, 5).make(), placed.file.data)
    placed.flat()
    assert checks == ["checked"]
