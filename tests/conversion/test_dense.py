"""Rounding to another float type is that of torch, and is said to be exact only if it is."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pelton.checkpoint.weight import Tensor
from pelton.conversion.dense import as_dense, chunks, encode_dense, has_numbers, is_exact
from pelton.errors import CheckpointError

pytestmark = pytest.mark.unit
TYPES = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
FLOATS = st.lists(st.floats(width=32, allow_nan=False), min_size=1, max_size=40)


def of(numbers: list[float], scheme: str = "F32") -> Tensor:
    rows = np.array([numbers], np.float32)
    return Tensor("w", (len(numbers),), scheme, encode_dense(rows, scheme))


@pytest.mark.parametrize("scheme", TYPES)
@given(numbers=FLOATS)
def test_numbers_are_rounded_as_torch_rounds_them(scheme: str, numbers: list[float]) -> None:
    expected = torch.tensor([numbers], dtype=torch.float32).to(TYPES[scheme]).view(torch.uint8).numpy()
    assert np.array_equal(encode_dense(np.array([numbers], np.float32), scheme), expected)


@pytest.mark.parametrize("scheme", ["F16", "BF16"])
@given(numbers=FLOATS)
def test_exact_is_what_comes_back(scheme: str, numbers: list[float]) -> None:
    back = torch.tensor(numbers).to(TYPES[scheme]).to(torch.float32)
    same = torch.equal(back.view(torch.int32), torch.tensor(numbers).view(torch.int32))
    assert is_exact(of(numbers), scheme) == same


def test_a_nan_stays_one() -> None:
    for scheme in ("F16", "BF16"):
        encoded = torch.from_numpy(encode_dense(np.array([[np.nan]], np.float32), scheme))
        assert bool(torch.isnan(encoded.view(TYPES[scheme])).all())


def test_what_has_that_type_is_not_touched() -> None:
    tensor = of([1.0, 2.0], "BF16")
    assert as_dense(tensor, "BF16") is tensor
    assert as_dense(tensor, "F32").payload.view(np.float32).tolist() == [[1.0, 2.0]]


def test_numbers_are_compared_whatever_holds_them() -> None:
    assert has_numbers(of([1.0, -0.5]), of([1.0, -0.5], "F16"))
    assert not has_numbers(of([1.0, -0.5]), of([1.0, 0.5], "F16"))
    assert not has_numbers(of([0.0]), of([-0.0]))
    assert not has_numbers(of([1.0]), of([1.0, 1.0]))


def test_chunks_cover_all_rows() -> None:
    assert list(chunks(5, 4 << 20)) == [(0, 2), (2, 4), (4, 5)]
    assert list(chunks(2, 1 << 30)) == [(0, 1), (1, 2)]
    assert list(chunks(0, 10)) == []


def test_no_other_type_is_dense() -> None:
    with pytest.raises(CheckpointError, match="Q8_0 is no dense type"):
        encode_dense(np.zeros((1, 32), np.float32), "Q8_0")


def test_no_number_becomes_infinite() -> None:
    with pytest.raises(CheckpointError, match="w: holds -70000, and F16 ends at 65504"):
        as_dense(of([1.0, -70000.0]), "F16")
    assert np.isinf(as_dense(of([np.inf, 1.0]), "F16").payload.view(np.float16)).tolist() == [[True, False]]
