"""8-bit floats times their scales, rounded once, by tensor, channel and block; a missing scale is an error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.checkpoint.hf.quantized.stored import compressed_config, make_quantization, place

from pelton.checkpoint.dequantize import dequantize
from pelton.checkpoint.hf.quantized.linear import find_quantized
from pelton.checkpoint.hf.quantized.settings import read_quantization
from pelton.errors import CheckpointError

pytestmark = pytest.mark.unit


def draw(n: int, k: int) -> torch.Tensor:
    return torch.randn(n, k, generator=torch.Generator().manual_seed(n * k)).to(torch.float8_e4m3fn)


def read(directory: Path, stored: dict[str, torch.Tensor], **config: Any) -> np.ndarray:
    tensor = find_quantized(place(directory, stored), make_quantization("fp8", bits=8, **config))["x.weight"].read()
    assert tensor.scheme == "F32"
    return dequantize(tensor)


def exact(weight: torch.Tensor, scales: torch.Tensor) -> np.ndarray:
    """In float64, rounded once."""
    return (weight.to(torch.float64) * scales.to(torch.float64)).float().numpy()


@pytest.mark.parametrize("shape", [(), (1,), (1, 1), (5,), (5, 1)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_scales_of_tensors_and_channels(shape: tuple[int, ...], dtype: torch.dtype, tmp_path: Path) -> None:
    weight = draw(5, 24)
    scale = (torch.rand(shape) + 0.01).to(dtype)
    expected = exact(weight, scale.reshape(-1, 1))
    stored = {"weight": weight, "weight_scale": scale, "input_scale": torch.ones(1)}
    np.testing.assert_array_equal(read(tmp_path, stored), expected)


@settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(n=st.integers(1, 40), k=st.integers(1, 40), rows=st.integers(1, 17), columns=st.integers(1, 17))
def test_blocks_are_smaller_at_the_edges(tmp_path: Path, n: int, k: int, rows: int, columns: int) -> None:
    weight = draw(n, k)
    scales = torch.rand(-(-n // rows), -(-k // columns)) + 0.01
    wide = scales.repeat_interleave(rows, 0)[:n].repeat_interleave(columns, 1)[:, :k]
    actual = read(tmp_path, {"weight": weight, "weight_scale_inv": scales}, block=(rows, columns))
    np.testing.assert_array_equal(actual, exact(weight, wide))


@pytest.mark.parametrize(
    ("stored", "config", "message"),
    [
        ({}, {}, "no scale"),
        ({"weight_scale": torch.ones(1), "weight_scale_inv": torch.ones(1)}, {}, "only one can be meant"),
        ({"weight_scale": torch.tensor(float("nan"))}, {}, "not finite"),
        ({"weight_scale": torch.ones(3)}, {}, r"shape \[3\], expected \[4, 1\]"),
        ({"weight_scale_inv": torch.ones(1, 1)}, {"block": (2, 16)}, r"expected \[2, 2\] for the blocks"),
        ({"weight_scale_inv": torch.ones(2, 2)}, {}, r"shape \[2, 2\]"),
    ],
)
def test_what_does_not_fit_is_refused(
    stored: dict[str, torch.Tensor], config: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(CheckpointError, match=message):
        read(tmp_path, {"weight": draw(4, 32), **stored}, **config)


def test_configurations_of_every_maker() -> None:
    deepseek = {
        "quant_method": "fp8",
        "fmt": "e4m3",
        "activation_scheme": "dynamic",
        "weight_block_size": [128, 128],
        "modules_to_not_convert": ["lm_head"],
    }
    found = read_quantization({"quantization_config": deepseek}, "config.json")
    assert found is not None
    assert (found.form, found.block) == ("fp8", (128, 128))
    plain = read_quantization({"quantization_config": {"quant_method": "fp8", "activation_scheme": "static"}}, "c")
    assert plain is not None
    assert plain.block is None
    compressed = json.loads(json.dumps(compressed_config("float-quantized", 8, None)))
    compressed["config_groups"]["group_0"]["weights"]["type"] = "float"
    compressed["config_groups"]["group_0"]["input_activations"] = {"dynamic": False, "num_bits": 8}
    again = read_quantization({"quantization_config": compressed}, "c")
    assert again is not None
    assert again.form == "fp8"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"fmt": "e5m2"}, "fmt is 'e5m2'"),
        ({"weight_block_size": [128]}, r"expected \[rows, columns\]"),
        ({"activation_scheme": "sometimes"}, "sometimes"),
        ({"weights_are": "odd"}, "'weights_are'"),
    ],
)
def test_unknown_ways_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        read_quantization({"quantization_config": {"quant_method": "fp8", **change}}, "config.json")
