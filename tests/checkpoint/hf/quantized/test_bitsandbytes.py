"""Codes and integers of bitsandbytes, with scales that are codes themselves and runs that cross rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.checkpoint.hf.quantized.stored import make_quantization, place

from pelton.checkpoint.dequantize import dequantize
from pelton.checkpoint.hf.quantized.linear import find_quantized
from pelton.checkpoint.hf.quantized.settings import read_quantization
from pelton.errors import CheckpointError

pytestmark = pytest.mark.unit
VALUES = torch.tensor([-1.0, -0.7, -0.5, -0.4, -0.3, -0.2, -0.1, 0.0, 0.1, 0.2, 0.25, 0.35, 0.45, 0.55, 0.7, 1.0])


def state(n: int, k: int, run: int, **more: Any) -> torch.Tensor:
    told = {"quant_type": "nf4", "blocksize": run, "dtype": "bfloat16", "shape": [n, k], **more}
    return torch.tensor(list(json.dumps(told).encode()), dtype=torch.uint8)


def make(n: int, k: int, run: int, *, nested: bool = False) -> tuple[dict[str, torch.Tensor], np.ndarray]:
    """What the library stores, and the numbers that it stands for, one by one."""
    draw = torch.Generator().manual_seed(n * k + run)
    codes = torch.randint(0, 16, (n * k,), generator=draw)
    num_runs = -(-n * k // run)
    scales = torch.rand(num_runs, generator=draw) + 0.01
    stored: dict[str, torch.Tensor] = {"weight.quant_map": VALUES, "weight.absmax": scales}
    more: dict[str, Any] = {}
    if nested:
        inner = torch.randint(0, 256, (num_runs,), generator=draw)
        worth, outer = torch.linspace(-1, 1, 256), torch.rand(-(-num_runs // 4), generator=draw)
        more = {"nested_blocksize": 4, "nested_dtype": "float32", "nested_offset": 1.25}
        scales = worth[inner] * outer.repeat_interleave(4)[:num_runs] + 1.25
        stored |= {"weight.absmax": inner.to(torch.uint8), "weight.nested_absmax": outer}
        stored["weight.nested_quant_map"] = worth
    pairs = torch.cat((codes, torch.zeros(n * k % 2, dtype=codes.dtype))).reshape(-1, 2)
    stored["weight"] = (pairs[:, 0] << 4 | pairs[:, 1]).to(torch.uint8)[:, None]
    stored["weight.quant_state.bitsandbytes__nf4"] = state(n, k, run, **more)
    numbers = [VALUES[code] * scales[index // run] for index, code in enumerate(codes.tolist())]
    return stored, torch.stack(numbers).reshape(n, k).numpy()


def read(directory: Path, stored: dict[str, torch.Tensor], form: str = "bnb4") -> np.ndarray:
    return dequantize(find_quantized(place(directory, stored), make_quantization(form))["x.weight"].read())


@settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(n=st.integers(1, 9), k=st.integers(1, 40), run=st.sampled_from([4, 16, 64]), nested=st.booleans())
def test_codes_are_worth_what_the_map_says(tmp_path: Path, n: int, k: int, run: int, nested: bool) -> None:
    stored, expected = make(n, k, run, nested=nested)
    np.testing.assert_array_equal(read(tmp_path, stored), expected)


def test_integers_have_a_scale_for_each_channel(tmp_path: Path) -> None:
    weight = torch.randint(-127, 128, (5, 24), dtype=torch.int8)
    scales = torch.rand(5) + 0.1
    stored = {"weight": weight, "SCB": scales, "weight_format": torch.tensor(0, dtype=torch.uint8)}
    expected = (weight.double() * scales.double()[:, None] / 127).float().numpy()
    np.testing.assert_array_equal(read(tmp_path, stored, "bnb8"), expected)
    stored["weight_format"] = torch.tensor(2, dtype=torch.uint8)
    with pytest.raises(CheckpointError, match="weight_format is not rows"):
        read(tmp_path / "other", stored, "bnb8")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"weight.quant_state.bitsandbytes__nf4": None}, "0 quant_states"),
        ({"weight.quant_state.bitsandbytes__nf4": state(3, 16, 4)}, r"not the codes of \[3, 16\]"),
        ({"weight.quant_state.bitsandbytes__nf4": state(4, 16, 8)}, "16 and 8 are expected"),
        ({"weight.absmax": torch.full((16,), torch.inf)}, "not finite"),
        ({"weight.absmax": torch.zeros(16, dtype=torch.uint8)}, "nested_absmax is not there"),
        ({"weight.quant_map": torch.zeros(8)}, "has 8 values"),
    ],
)
def test_what_does_not_fit_is_refused(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    stored, _ = make(4, 16, 4)
    stored = {name: tensor for name, tensor in {**stored, **change}.items() if tensor is not None}
    with pytest.raises(CheckpointError, match=message):
        read(tmp_path, stored)


def test_configurations() -> None:
    told = {
        "quant_method": "bitsandbytes",
        "load_in_4bit": True,
        "bnb_4bit_quant_type": "nf4",
        "bnb_4bit_use_double_quant": True,
        "bnb_4bit_compute_dtype": "bfloat16",
        "llm_int8_threshold": 6.0,
    }
    found = read_quantization({"quantization_config": told}, "config.json")
    assert found is not None
    assert found.form == "bnb4"
    for change, message in (({"load_in_4bit": False}, "one of them"), ({"bnb_4bit_quant_type": "nf5"}, "nf5")):
        with pytest.raises(CheckpointError, match=message):
            read_quantization({"quantization_config": {**told, **change}}, "config.json")
