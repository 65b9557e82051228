"""AWQ's layout gives back the integers, zero points and scales that were packed into it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from tests.checkpoint.hf.quantized.stored import as_awq, make_quantization, place, random_linear

from pelton.checkpoint.dequantize import dequantize
from pelton.checkpoint.hf.quantized.linear import find_quantized

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("group_size", [32, 64, 128, 768])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_values_are_those_of_the_definition(tmp_path: Path, group_size: int, dtype: torch.dtype) -> None:
    linear = random_linear(40, 768, group_size=group_size, dtype=dtype)
    linear.zeros_NG[5] = 0
    found = find_quantized(place(tmp_path, as_awq(linear)), make_quantization("awq", group_size=group_size))
    np.testing.assert_array_equal(dequantize(found["x.weight"].read()), linear.values)


def test_a_word_holds_its_even_channels_first(tmp_path: Path) -> None:
    """One word by hand: 0x75316420 is the channels 0 to 7 with their own numbers."""
    stored = {
        "qweight": torch.full((32, 1), 0x75316420, dtype=torch.int32),
        "qzeros": torch.zeros((1, 1), dtype=torch.int32),
        "scales": torch.ones((1, 8), dtype=torch.float16),
    }
    found = find_quantized(place(tmp_path, stored), make_quantization("awq"))
    np.testing.assert_array_equal(dequantize(found["x.weight"].read())[:, 7], np.arange(8))
