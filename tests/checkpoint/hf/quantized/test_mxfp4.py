"""E2M1 codes and E8M0 scales as safetensors hold them become GGUF's blocks of the same numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from tests.checkpoint.hf.quantized.stored import make_quantization, place

from pelton.checkpoint.dequantize import dequantize
from pelton.checkpoint.hf.quantized.linear import find_quantized
from pelton.errors import CheckpointError

pytestmark = pytest.mark.unit

E2M1 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
QUANTIZATION = make_quantization("mxfp4", group_size=32)


def test_values_are_those_of_the_definition(tmp_path: Path) -> None:
    generator = torch.Generator().manual_seed(0)
    codes = torch.randint(0, 16, (5, 96), generator=generator)
    exponents = torch.randint(0, 255, (5, 3), generator=generator)
    stored = {
        "weight_packed": (codes[:, 0::2] | codes[:, 1::2] << 4).to(torch.uint8),
        "weight_scale": exponents.to(torch.uint8),
    }
    tensor = find_quantized(place(tmp_path, stored), QUANTIZATION)["x.weight"].read()
    assert (tensor.shape, tensor.scheme) == ((5, 96), "MXFP4")
    powers = torch.ldexp(torch.ones(5, 3, dtype=torch.float64), exponents - 127).repeat_interleave(32, dim=1)
    np.testing.assert_array_equal(dequantize(tensor), (powers * E2M1[codes].double()).float().numpy())


def test_a_scale_that_is_not_a_number_is_refused(tmp_path: Path) -> None:
    stored = {
        "weight_packed": torch.zeros(2, 16, dtype=torch.uint8),
        "weight_scale": torch.full((2, 1), 255, dtype=torch.uint8),
    }
    with pytest.raises(CheckpointError, match=r"x\.weight_scale has a scale that is not a number"):
        find_quantized(place(tmp_path, stored), QUANTIZATION)["x.weight"].read()
