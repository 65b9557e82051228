"""Targets are found by their place in the plan, however the source keeps its experts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from tests.models.architectures import make_model

from pelton.checkpoint.checkpoint import open_checkpoint
from pelton.checkpoint.weight import Tensor
from pelton.conversion.convert import Options, Progress, convert
from pelton.conversion.pieces import list_pieces, stack

pytestmark = pytest.mark.cpu


def test_shapes_and_schemes_are_those_of_what_is_read(tmp_path: Path) -> None:
    make_model("qwen2_moe-normalised", tmp_path)
    with open_checkpoint(tmp_path) as checkpoint:
        pieces, _ = list_pieces(checkpoint, "gguf")
        for piece in pieces:
            tensor = piece.read()
            assert (tensor.shape, tensor.scheme) == (piece.shape, piece.scheme), piece.name
        names = [piece.name for piece in pieces]
        assert len(names) == len(set(names))
        assert {name for piece in pieces for name in piece.sources} == set(checkpoint.tensors)


def test_experts_kept_in_one_are_the_same_experts(tmp_path: Path) -> None:
    make_model("qwen3_moe", tmp_path / "apart")
    apart = load_file(tmp_path / "apart" / "model.safetensors")
    together = {name: array for name, array in apart.items() if ".experts." not in name}
    for layer in (0, 2, 3):
        below = f"model.layers.{layer}.mlp.experts"
        experts = [
            np.concatenate([apart[f"{below}.{x}.gate_proj.weight"], apart[f"{below}.{x}.up_proj.weight"]])
            for x in range(6)
        ]
        together[f"{below}.gate_up_proj"] = np.stack(experts)
        together[f"{below}.down_proj"] = np.stack([apart[f"{below}.{x}.down_proj.weight"] for x in range(6)])
    (tmp_path / "together").mkdir()
    save_file(together, tmp_path / "together" / "model.safetensors")
    (tmp_path / "together" / "config.json").write_bytes((tmp_path / "apart" / "config.json").read_bytes())
    for name in ("apart", "together"):
        convert(tmp_path / name, tmp_path / f"{name}.gguf", "gguf", Options(), Progress())
    with open_checkpoint(tmp_path / "apart.gguf") as one, open_checkpoint(tmp_path / "together.gguf") as two:
        assert list(one.tensors) == list(two.tensors)
        for name in one.tensors:
            assert np.array_equal(one.read(name).payload, two.read(name).payload), name
    convert(tmp_path / "together.gguf", tmp_path / "back", "safetensors", Options(), Progress())
    back = load_file(tmp_path / "back" / "model.safetensors")
    assert back.keys() == apart.keys()
    assert all(np.array_equal(back[name], apart[name]) for name in apart)


def test_matrices_are_stacked_in_order() -> None:
    parts = [Tensor(str(i), (2, 1), "F32", np.full((2, 4), i, np.uint8)) for i in range(12)]
    made = stack("all", parts)
    assert made.shape == (12, 2, 1)
    assert made.payload[:, 0].tolist() == [i for i in range(12) for _ in range(2)]
