"""Group rows hold what was given, in chunks of any number of channels."""

from __future__ import annotations

import numpy as np
import pytest

from pelton.checkpoint.dequantize import dequantize_rows
from pelton.checkpoint.hf.quantized import group_rows
from pelton.checkpoint.hf.quantized.group_rows import Groups, group_scheme, make_rows

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("row_size", "group_size", "scheme"),
    [
        (256, 128, "INT4_G128"),
        (256, 256, "INT4_G128"),
        (96, 96, "INT4_G32"),
        (128, 64, "INT4_G32"),
        (160, 128, "INT4_G32"),
        (48, 48, None),
    ],
)
def test_the_scheme_has_the_largest_blocks_that_fit(row_size: int, group_size: int, scheme: str | None) -> None:
    assert group_scheme(4, row_size, group_size) == scheme


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize(("group_size", "num_groups"), [(32, 9), (64, 5), (128, 3), (288, 1)])
def test_chunks_do_not_change_the_rows(
    monkeypatch: pytest.MonkeyPatch, bits: int, group_size: int, num_groups: int
) -> None:
    rng = np.random.default_rng(0)
    integers = rng.integers(0, 1 << bits, (50, 288), dtype=np.uint8)
    stored = integers if bits == 8 else integers[:, 0::2] | integers[:, 1::2] << 4
    groups = Groups(
        bits=bits,
        row_size=288,
        group_size=group_size,
        scales_NG=rng.random((50, num_groups), dtype=np.float32),
        zeros_NG=rng.integers(0, 1 << bits, (50, num_groups), dtype=np.uint8),
        integers=lambda begin, end: stored[begin:end],
    )
    scheme = f"INT{bits}_G32"
    whole = make_rows(groups, scheme)
    monkeypatch.setattr(group_rows, "_CHUNK_ELEMENTS", 288 * 9)
    np.testing.assert_array_equal(make_rows(groups, scheme), whole)
    group_of = np.arange(288) // group_size
    expected = groups.scales_NG[:, group_of] * (integers - groups.zeros_NG[:, group_of].astype(np.float32))
    np.testing.assert_array_equal(dequantize_rows(scheme, whole), expected)
