"""Models quantized by each method give the logits of the dense model that is made of their dequantized weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.checkpoint.hf.quantized.stored import (
    Linear,
    Stored,
    as_awq,
    as_gptq,
    as_integers,
    as_packed,
    compressed_config,
    random_linear,
    write_checkpoint,
)
from tests.fakes import TinyModel
from tests.models.test_parity import LIMITS, load

from pelton.backends.cpu import CpuBackend
from pelton.backends.executable import Executable
from pelton.backends.reference import ReferenceBackend
from pelton.runner.direct_step import logits_of

pytestmark = pytest.mark.cpu

PROMPT = [int(x) for x in np.random.default_rng(7).integers(3, 250, 45)]
TINY = TinyModel(architecture="Qwen2ForCausalLM", hidden_size=128, intermediate_size=256, num_layers=2, head_dim=32)
GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": False, "sym": False}
AWQ = {"quant_method": "awq", "bits": 4, "group_size": 64, "zero_point": True, "version": "gemm"}

# By name: the configuration, what a linear is made with, and how it is stored.
METHODS: dict[str, tuple[dict[str, Any], dict[str, Any], Callable[[Linear], Stored]]] = {
    "gptq-int4-g128": (GPTQ, {"group_size": 128}, as_gptq),
    "gptq-int4-g32": (GPTQ | {"group_size": 32}, {"group_size": 32}, as_gptq),
    "gptq-int8-row": (GPTQ | {"bits": 8, "group_size": -1}, {"bits": 8, "symmetric": True}, as_gptq),
    "awq-int4-g64": (AWQ, {"group_size": 64}, as_awq),
    "packed-int4-g128": (
        compressed_config("pack-quantized", 4, 128, symmetric=False),
        {"group_size": 128, "dtype": torch.bfloat16},
        as_packed,
    ),
    "packed-int8-row": (
        compressed_config("pack-quantized", 8, None),
        {"bits": 8, "symmetric": True, "dtype": torch.bfloat16},
        lambda linear: as_packed(linear, symmetric=True),
    ),
    "int8-row": (compressed_config("int-quantized", 8, None), {"bits": 8, "symmetric": True}, as_integers),
}


def write_pair(directory: Path, name: str) -> tuple[Path, Path]:
    """A quantized checkpoint, and the dense one with the same numbers."""
    config, settings, store = METHODS[name]
    quantized: Stored = {}
    dense: Stored = {}
    middle = {4: 4.6, 8: 74.0}[settings.get("bits", 4)]  # the standard deviation of the integers
    for seed, (tensor, array) in enumerate(TINY.tensors().items()):
        if "proj.weight" not in tensor:
            quantized[tensor] = dense[tensor] = torch.from_numpy(array)
            continue
        linear = random_linear(*array.shape, seed=seed, scale=0.15 / middle, **settings)
        dense[tensor] = torch.from_numpy(linear.values)
        prefix = tensor.removesuffix("weight")
        quantized |= {prefix + part: value for part, value in store(linear).items()}
    write_checkpoint(directory / "dense", TINY.config(), dense)
    write_checkpoint(directory / "quantized", TINY.config() | {"quantization_config": config}, quantized)
    return directory / "quantized", directory / "dense"


def logits(executable: Executable) -> np.ndarray:
    return logits_of(executable, PROMPT, [2, 1], chunk=64, max_blocks=2)


@pytest.mark.parametrize("name", METHODS)
def test_every_backend_agrees_with_the_dequantized_model(name: str, tmp_path: Path) -> None:
    quantized, dense = write_pair(tmp_path, name)
    expected_TV = logits(load(dense, ReferenceBackend("float32")))
    np.testing.assert_array_equal(logits(load(quantized, ReferenceBackend("float32"))), expected_TV)
    spread = float(expected_TV.std())
    exact_TV = logits(load(quantized, CpuBackend()))
    np.testing.assert_allclose(exact_TV, expected_TV, rtol=0, atol=2e-4 * spread)
    np.testing.assert_array_equal(exact_TV, logits(load(dense, CpuBackend())))  # the same float32 weights
    by_default_TV = logits(load(quantized, CpuBackend(), replace(LIMITS, exact=False, num_threads=2)))
    assert np.abs(by_default_TV - expected_TV).mean() < 0.06 * spread
