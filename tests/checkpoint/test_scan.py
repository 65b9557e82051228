"""Counts and extremes of every scheme, however a tensor is cut."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pelton.checkpoint.dequantize import dequantize_rows
from pelton.checkpoint.scan import Numbers, merge, scan_rows
from pelton.checkpoint.scheme import READ_ONLY, SCHEMES

pytestmark = pytest.mark.unit


@given(st.integers(0, 1 << 32), st.integers(1, 50), st.integers(1, 40), st.integers(1, 400))
def test_numbers_do_not_depend_on_how_a_tensor_is_cut(seed: int, rows: int, columns: int, chunk: int) -> None:
    random = np.random.default_rng(seed)
    values = random.normal(size=(rows, columns)).astype("<f4")
    for special in (np.nan, np.inf, -np.inf, 0.0):
        values[random.integers(0, rows, 3), random.integers(0, columns, 3)] = special
    done: list[int] = []
    found = scan_rows("F32", values.view(np.uint8), chunk_elements=chunk, on_bytes=done.append)
    finite = values[np.isfinite(values)]
    assert sum(done) == values.nbytes
    assert (found.num_nan, found.num_inf) == (np.isnan(values).sum(), np.isinf(values).sum())
    assert (found.num_zero, found.num_finite) == ((values == 0).sum(), finite.size)
    if finite.size:
        assert (found.minimum, found.maximum) == (finite.min(), finite.max())
        assert found.absmax == np.abs(finite).max()
        assert found.mean == pytest.approx(finite.mean(dtype=np.float64), abs=1e-12)


@pytest.mark.parametrize("scheme", sorted(set(SCHEMES) - READ_ONLY))
def test_every_scheme_is_known(scheme: str) -> None:
    random = np.random.default_rng(0)
    rows = random.integers(0, 2 if scheme == "BOOL" else 0x3C, (3, 8 * SCHEMES[scheme].block_bytes), np.uint8)
    found = scan_rows(scheme, rows)
    per_block = 2 if scheme == "C64" else SCHEMES[scheme].block_size
    assert found.num_finite + found.num_not_finite == 24 * per_block
    if scheme in ("Q4_K", "F8_E4M3", "BF16"):
        assert found.absmax == np.abs(dequantize_rows(scheme, rows)).max()


def test_rows_that_are_a_part_of_others() -> None:
    whole = np.arange(16, dtype="<f4").reshape(4, 4)
    assert scan_rows("F32", whole.view(np.uint8)[:, 4:8]).maximum == 13.0


@pytest.mark.parametrize(("scheme", "dtype"), [("U64", "<u8"), ("I64", "<i8"), ("F64", "<f8"), ("U32", "<u4")])
def test_numbers_that_float32_cannot_hold(scheme: str, dtype: str) -> None:
    values = np.array([[(1 << 24) + 1, 0]], dtype)
    found = scan_rows(scheme, values.view(np.uint8))
    assert (found.maximum, found.num_zero) == ((1 << 24) + 1, 1)


def test_nothing_to_count() -> None:
    empty = scan_rows("F32", np.zeros((0, 16), np.uint8))
    assert (empty.num_finite, empty.absmax) == (0, 0.0)
    assert math.isnan(empty.mean)
    assert merge(empty, Numbers(num_nan=1)).num_not_finite == 1
