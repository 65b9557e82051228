"""The layouts of compressed-tensors give back the integers, zero points and scales that were packed into them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.checkpoint.hf.quantized.stored import as_integers, as_packed, make_quantization, place, random_linear

from pelton.checkpoint.dequantize import dequantize
from pelton.checkpoint.hf.quantized.linear import find_quantized
from pelton.checkpoint.weight import Tensor
from pelton.errors import CheckpointError

pytestmark = pytest.mark.unit


def read(directory: Path, form: str, stored: dict[str, torch.Tensor], **settings: Any) -> Tensor:
    return find_quantized(place(directory, stored), make_quantization(form, **settings))["x.weight"].read()


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("group_size", [32, 128, None])
@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_packed_values_are_those_of_the_definition(
    tmp_path: Path, bits: int, group_size: int | None, symmetric: bool, dtype: torch.dtype
) -> None:
    linear = random_linear(37, 256, bits=bits, group_size=group_size, symmetric=symmetric, dtype=dtype)
    stored = as_packed(linear, symmetric=symmetric)
    tensor = read(tmp_path, "packed", stored, bits=bits, group_size=group_size, is_symmetric=symmetric)
    assert (tensor.shape, tensor.scheme) == ((37, 256), f"INT{bits}_G{32 if group_size == 32 else 128}")
    np.testing.assert_array_equal(dequantize(tensor), linear.values)


def test_zero_points_may_be_signed_bytes(tmp_path: Path) -> None:
    linear = random_linear(9, 64, group_size=32)
    stored = as_packed(linear, symmetric=True)
    stored["weight_zero_point"] = (linear.zeros_NG - 8).to(torch.int8)
    np.testing.assert_array_equal(dequantize(read(tmp_path, "packed", stored, group_size=32)), linear.values)


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("group_size", [None, 64])
def test_integer_values_are_those_of_the_definition(
    tmp_path: Path, bits: int, symmetric: bool, group_size: int | None
) -> None:
    linear = random_linear(37, 96 if group_size is None else 128, bits=bits, group_size=group_size, symmetric=symmetric)
    stored = as_integers(linear, symmetric=symmetric)
    tensor = read(tmp_path, "integers", stored, bits=bits, is_symmetric=symmetric, group_size=group_size)
    assert tensor.scheme == "INT8_G32"
    np.testing.assert_array_equal(dequantize(tensor), linear.values)


def test_one_scale_may_serve_all_channels(tmp_path: Path) -> None:
    linear = random_linear(5, 128, bits=8, symmetric=True)
    linear.scales_NG[:] = linear.scales_NG[0]
    stored = as_integers(linear)
    stored["weight_scale"] = stored["weight_scale"][0]
    tensor = read(tmp_path, "integers", stored, bits=8, is_symmetric=True)
    assert tensor.scheme == "INT8_G128"
    np.testing.assert_array_equal(dequantize(tensor), linear.values)


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    linear = random_linear(8, 64, group_size=32)
    stored = as_packed(linear)

    def check(name: str, message: str, group_size: int = 32, **changes: torch.Tensor | None) -> None:
        changed = {part: tensor for part, tensor in {**stored, **changes}.items() if tensor is not None}
        with pytest.raises(CheckpointError, match=message):
            read(tmp_path / name, "packed", changed, group_size=group_size)

    check("shape", "weight_shape says .8, 72.", weight_shape=torch.tensor([8, 72]))
    check("scales", r"x\.weight_scale: has shape .8, 2., .*need .8, 1.", group_size=64)
    check("zeros", r"x\.weight_zero_point: has shape", weight_zero_point=torch.zeros(3, 1, dtype=torch.int8))
    for shape in ((1,), (1, 1), (3, 2), (), (1, 2, 1)):
        check(f"words {shape}", r"x\.weight_zero_point: has", weight_zero_point=torch.zeros(shape, dtype=torch.int32))
    check("scalar", r"x\.weight_scale: has shape \[\]", weight_scale=torch.tensor(1.0))
    check("order of nothing", "actorder", weight_g_idx=torch.tensor(0, dtype=torch.int32))
    check("none", r"x\.weight_scale: has no weight_zero_point", weight_zero_point=None)
    check("order", "actorder", weight_g_idx=torch.arange(64).to(torch.int32) % 2)
    check("nan", r"x\.weight: has a scale that is not finite", weight_scale=stored["weight_scale"] * float("nan"))
    in_order = (torch.arange(64) // 32).to(torch.int32)
    assert read(tmp_path / "sound", "packed", {**stored, "weight_g_idx": in_order}, group_size=32).shape == (8, 64)
