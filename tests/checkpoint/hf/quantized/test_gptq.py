"""GPTQ's layout gives back the integers, zero points and scales that were packed into it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from tests.checkpoint.hf.quantized.stored import Linear, as_gptq, make_quantization, place, random_linear

from pelton.checkpoint.dequantize import dequantize
from pelton.checkpoint.hf.quantized.linear import find_quantized
from pelton.checkpoint.hf.shards import read_weights
from pelton.checkpoint.weight import Tensor
from pelton.errors import CheckpointError

pytestmark = pytest.mark.unit


def read(directory: Path, linear: Linear, stored: dict[str, torch.Tensor], *, version: int = 1) -> Tensor:
    quantization = make_quantization("gptq", bits=linear.bits, group_size=linear.group_size, zero_offset=2 - version)
    return find_quantized(place(directory, stored), quantization)["x.weight"].read()


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("group_size", [32, 64, 128, 256, 384])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_values_are_those_of_the_definition(tmp_path: Path, bits: int, group_size: int, dtype: torch.dtype) -> None:
    linear = random_linear(40, 768, bits=bits, group_size=group_size, dtype=dtype)
    tensor = read(tmp_path, linear, as_gptq(linear))
    assert (tensor.shape, tensor.scheme) == ((40, 768), f"INT{bits}_G{32 if group_size < 128 else 128}")
    np.testing.assert_array_equal(dequantize(tensor), linear.values)


def test_words_that_pytorch_saved_transposed(tmp_path: Path) -> None:
    linear = random_linear(40, 256, group_size=64)
    views = {
        f"x.{name}": tensor.T.contiguous().T if tensor.ndim == 2 else tensor for name, tensor in as_gptq(linear).items()
    }
    assert not views["x.qweight"].is_contiguous()
    torch.save(views, tmp_path / "pytorch_model.bin")
    quantization = make_quantization("gptq", group_size=64, zero_offset=1)
    tensor = find_quantized(read_weights(tmp_path), quantization)["x.weight"].read()
    np.testing.assert_array_equal(dequantize(tensor), linear.values)


@pytest.mark.parametrize("symmetric", [True, False])
def test_both_versions_of_one_matrix_are_equal(tmp_path: Path, symmetric: bool) -> None:
    linear = random_linear(16, 128, symmetric=symmetric)
    versions = [read(tmp_path / str(v), linear, as_gptq(linear, v), version=v).payload for v in (1, 2)]
    np.testing.assert_array_equal(*versions)


def test_a_zero_point_of_zero_is_read_from_version_2(tmp_path: Path) -> None:
    linear = random_linear(8, 64)
    linear.zeros_NG[3] = 0
    np.testing.assert_array_equal(dequantize(read(tmp_path, linear, as_gptq(linear, 2), version=2)), linear.values)


def test_an_ambiguous_zero_point_is_refused(tmp_path: Path) -> None:
    linear = random_linear(8, 64)
    linear.zeros_NG[3] = 16
    with pytest.raises(CheckpointError, match=r"x\.qzeros: has a zero point with all bits set"):
        read(tmp_path, linear, as_gptq(linear))


def test_channels_that_do_not_fill_words_are_refused(tmp_path: Path) -> None:
    stored = {
        "qweight": torch.zeros(4, 12, dtype=torch.int32),
        "qzeros": torch.zeros(1, 1, dtype=torch.int32),
        "scales": torch.ones(1, 12),
    }
    with pytest.raises(CheckpointError, match="has 12 channels, whose zero points of 4 bits do not fill words"):
        find_quantized(place(tmp_path, stored), make_quantization("gptq"))


def test_inputs_in_the_order_of_their_activations_are_refused(tmp_path: Path) -> None:
    linear = random_linear(8, 64, group_size=32)
    stored = as_gptq(linear)
    stored["g_idx"] = stored["g_idx"].flip(0)
    with pytest.raises(CheckpointError, match=r"x\.g_idx: .*desc_act.* quantized with desc_act=false"):
        read(tmp_path, linear, stored)


def test_an_order_that_is_promised_and_missing_is_refused(tmp_path: Path) -> None:
    linear = random_linear(8, 64)
    stored = as_gptq(linear)
    del stored["g_idx"]
    assert read(tmp_path / "a", linear, stored).shape == (8, 64)
    quantization = make_quantization("gptq", is_reordered=True, zero_offset=1)
    found = find_quantized(place(tmp_path / "b", stored), quantization)
    with pytest.raises(CheckpointError, match="has no g_idx beside it"):
        found["x.weight"].read()
