"""Tensors are compared by what they hold, however they are cut and kept."""

from __future__ import annotations

import numpy as np
import pytest

from pelton.checkpoint.weight import Tensor
from pelton.errors import CheckpointError
from pelton.verification.tensors import compare_parts, judge_tensor

pytestmark = pytest.mark.unit


def of(numbers: np.ndarray, name: str = "w") -> Tensor:
    rows = np.ascontiguousarray(numbers, np.float32)
    return Tensor(name, rows.shape, "F32", rows.reshape(-1, rows.shape[-1]).view(np.uint8))


def half(numbers: np.ndarray) -> Tensor:
    rows = np.ascontiguousarray(numbers, np.float16)
    return Tensor("w", rows.shape, "F16", rows.view(np.uint8))


NUMBERS = np.arange(-12, 12, dtype=np.float32).reshape(6, 4)


def test_the_same_bytes_and_the_same_numbers() -> None:
    assert compare_parts("w", [of(NUMBERS)], [of(NUMBERS)]).sameness == "bytes"
    assert compare_parts("w", [of(NUMBERS)], [half(NUMBERS)]).sameness == "numbers"
    cut = [of(NUMBERS[:1]), of(NUMBERS[1:])]
    assert compare_parts("w", [of(NUMBERS)], cut).sameness == "numbers"
    assert compare_parts("w", [half(NUMBERS[:5]), half(NUMBERS[5:])], cut).sameness == "numbers"


def test_errors_are_measured_against_the_size_of_the_numbers() -> None:
    other = NUMBERS.copy()
    other[2, 1] += 2
    other[3, 3] = 0
    record = compare_parts("w", [of(NUMBERS)], [of(other)])
    size = float(np.sqrt(np.mean(np.square(NUMBERS))))
    errors = other - NUMBERS
    assert record.num_different == 2
    assert record.num_flushed == 1
    assert record.relative_rms == pytest.approx(float(np.sqrt(np.mean(np.square(errors)))) / size)
    assert record.relative_max == pytest.approx(float(np.abs(errors).max()) / size)
    (finding,) = judge_tensor(record)
    assert finding.id == "L2.NUMBERS:w"
    assert "2 of 24 numbers differ" in finding.what
    assert "1 have become zero" in finding.what


def test_numbers_that_are_none_are_counted() -> None:
    other = NUMBERS.copy()
    other[0, 0] = np.nan
    record = compare_parts("w", [of(NUMBERS)], [of(other)])
    assert (record.num_not_finite, record.num_different) == (1, 1)


def test_a_sign_of_zero_counts() -> None:
    assert compare_parts("w", [of(np.zeros((1, 4)))], [of(-np.zeros((1, 4)))]).num_different == 4


def test_other_shapes_are_refused() -> None:
    with pytest.raises(CheckpointError, match=r"\[6, 4\] in the source and \[5, 4\] in the target"):
        compare_parts("w", [of(NUMBERS)], [of(NUMBERS[:5])])
