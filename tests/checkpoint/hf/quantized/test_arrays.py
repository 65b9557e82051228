"""Tensors as arrays: views where the format allows it, and integers out of words."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from tests.checkpoint.hf.quantized.stored import place, words

from pelton.checkpoint.hf.quantized.arrays import array_of, bytes_of, part_nibbles, unpack_rows

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    "dtype", [torch.int8, torch.uint8, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32]
)
def test_numbers_are_those_of_the_file(tmp_path: Path, dtype: torch.dtype) -> None:
    tensor = torch.arange(1, 7).reshape(2, 3).to(dtype)
    (placed,) = place(tmp_path, {"t": tensor}).values()
    assert array_of(placed).tolist() == [[1, 2, 3], [4, 5, 6]]
    assert bytes_of(placed).tobytes() == tensor.view(torch.uint8).numpy().tobytes()


@pytest.mark.parametrize("bits", [4, 8])
def test_words_give_back_their_integers(bits: int) -> None:
    integers = torch.randint(0, 1 << bits, (3, 64), generator=torch.Generator().manual_seed(0))
    stored = words(integers, bits, axis=1).numpy().view(np.uint32)
    np.testing.assert_array_equal(unpack_rows(stored, bits), integers.numpy())


def test_neighbouring_nibbles_part_by_sixteen() -> None:
    elements = np.random.default_rng(0).integers(0, 16, (3, 96), dtype=np.uint8)
    pairs = elements[:, 0::2] | elements[:, 1::2] << 4
    expected = elements.reshape(3, -1, 2, 16)
    np.testing.assert_array_equal(part_nibbles(pairs), (expected[:, :, 0] | expected[:, :, 1] << 4).reshape(3, -1))
