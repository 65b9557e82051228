"""Known integers, zero points and scales in the layouts that each method publishes, packed with torch.

Written from the formats' definitions, one position of a word after another; shares nothing with what reads them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file

from pelton.checkpoint.hf.checkpoint import HfCheckpoint
from pelton.checkpoint.hf.quantized.settings import Quantization
from pelton.checkpoint.hf.shards import read_weights

Stored = dict[str, torch.Tensor]
AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)


@dataclass(frozen=True)
class Linear:
    """W[n, k] = scales[n, k // group_size] * (integers[n, k] - zeros[n, k // group_size])."""

    integers_NK: torch.Tensor  # int64
    zeros_NG: torch.Tensor
    scales_NG: torch.Tensor
    group_size: int
    bits: int

    @property
    def values(self) -> np.ndarray:
        """float32, rounded once."""
        spread = [x.double().repeat_interleave(self.group_size, dim=1) for x in (self.scales_NG, self.zeros_NG)]
        return (spread[0] * (self.integers_NK.double() - spread[1])).float().numpy()


def random_linear(
    n: int,
    k: int,
    *,
    bits: int = 4,
    group_size: int | None = None,
    symmetric: bool = False,
    dtype: torch.dtype = torch.float16,
    seed: int = 0,
    scale: float = 0.01,
) -> Linear:
    generator = torch.Generator().manual_seed(seed)
    size = group_size or k
    shape = (n, k // size)
    zeros = torch.randint(1, 1 << bits, shape, generator=generator)  # what gptq of version 1 can store
    if symmetric:
        zeros = torch.full(shape, 1 << (bits - 1))
    scales = (scale * (0.5 + torch.rand(shape, generator=generator))).to(dtype)
    return Linear(torch.randint(0, 1 << bits, (n, k), generator=generator), zeros, scales, size, bits)


def words(integers: torch.Tensor, bits: int, axis: int, order: tuple[int, ...] | None = None) -> torch.Tensor:
    """int32 words of integers along `axis`; position i of a word holds its integer order[i]."""
    per_word = 32 // bits
    moved = integers.movedim(axis, 0)
    moved = torch.cat((moved, torch.zeros(-len(moved) % per_word, *moved.shape[1:], dtype=moved.dtype)))
    word = torch.zeros(len(moved) // per_word, *moved.shape[1:], dtype=torch.int64)
    for position in range(per_word):
        word |= moved[(order or range(per_word))[position] :: per_word] << (bits * position)
    word = torch.where(word >= 1 << 31, word - (1 << 32), word)
    return word.to(torch.int32).movedim(0, axis).contiguous()


def as_gptq(linear: Linear, version: int = 1) -> Stored:
    k = linear.integers_NK.shape[1]
    zeros = linear.zeros_NG - (1 if version == 1 else 0)
    return {
        "qweight": words(linear.integers_NK.T, linear.bits, axis=0),
        "qzeros": words(zeros.T, linear.bits, axis=1),
        "scales": linear.scales_NG.T.contiguous(),
        "g_idx": (torch.arange(k) // linear.group_size).to(torch.int32),
    }


def as_awq(linear: Linear) -> Stored:
    return {
        "qweight": words(linear.integers_NK.T, 4, axis=1, order=AWQ_ORDER),
        "qzeros": words(linear.zeros_NG.T, 4, axis=1, order=AWQ_ORDER),
        "scales": linear.scales_NG.T.contiguous(),
    }


def as_packed(linear: Linear, *, symmetric: bool = False) -> Stored:
    """compressed-tensors' pack-quantized; what is stored is unsigned again, raised by half of the range."""
    stored = {
        "weight_packed": words(linear.integers_NK, linear.bits, axis=1),
        "weight_scale": linear.scales_NG.contiguous(),
        "weight_shape": torch.tensor(linear.integers_NK.shape),
    }
    if not symmetric:
        stored["weight_zero_point"] = words(linear.zeros_NG, linear.bits, axis=0)
    return stored


def as_integers(linear: Linear, *, symmetric: bool = True) -> Stored:
    """compressed-tensors' int-quantized."""
    half = 1 << (linear.bits - 1)
    stored = {"weight": (linear.integers_NK - half).to(torch.int8), "weight_scale": linear.scales_NG.contiguous()}
    if not symmetric:
        stored["weight_zero_point"] = (linear.zeros_NG - half).to(torch.int8)
    return stored


def compressed_config(form: str, bits: int, group_size: int | None, *, symmetric: bool = True) -> dict[str, Any]:
    """`quantization_config` as llm-compressor writes it."""
    weights = {
        "num_bits": bits,
        "type": "int",
        "symmetric": symmetric,
        "strategy": "group" if group_size else "channel",
        "group_size": group_size,
        "dynamic": False,
        "actorder": None,
        "observer": "minmax",
        "observer_kwargs": {},
        "block_structure": None,
    }
    activations = {"num_bits": 8, "type": "int", "symmetric": True, "strategy": "token", "dynamic": True}
    group = {
        "targets": ["Linear"],
        "weights": weights,
        "input_activations": activations if form == "int-quantized" else None,
        "output_activations": None,
    }
    return {
        "quant_method": "compressed-tensors",
        "format": form,
        "quantization_status": "compressed",
        "config_groups": {"group_0": group},
        "ignore": ["lm_head"],
        "kv_cache_scheme": None,
        "global_compression_ratio": 1.5,
    }


def place(directory: Path, tensors: Stored, prefix: str = "x") -> dict[str, Any]:
    """Write the tensors of one linear into a safetensors file of their own and give them as they lie in it."""
    directory.mkdir(exist_ok=True)
    save_file({f"{prefix}.{name}": tensor for name, tensor in tensors.items()}, directory / "model.safetensors")
    return dict(read_weights(directory))


def make_quantization(form: Any, **settings: Any) -> Quantization:
    return Quantization(**{"source": "config.json", "form": form, "bits": 4, "group_size": None, **settings})


def write_checkpoint(directory: Path, config: dict[str, Any], tensors: Stored) -> HfCheckpoint:
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "config.json").write_text(json.dumps(config))
    save_file(tensors, directory / "model.safetensors")
    return HfCheckpoint(directory)
