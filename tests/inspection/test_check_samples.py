from pathlib import Path

import numpy as np
import pytest
from tests.inspection.models import found, inspect, write
from tests.loading.memory_checkpoint import MemoryCheckpoint

from pelton.inspection.check_samples import find_copies, sample

pytestmark = pytest.mark.unit


def test_a_matrix_of_zeros_is_seen_without_a_pass(tmp_path: Path) -> None:
    def damage(tensors: dict) -> None:  # type: ignore[type-arg]
        tensors["model.layers.2.mlp.down_proj.weight"][:] = 0.0
        tensors["model.layers.1.mlp.down_proj.weight"][:] = 0.0
        tensors["model.layers.1.mlp.down_proj.weight"][5, 5] = 1.0

    report = inspect(write(tmp_path, tensors=damage))
    (finding,) = [finding for finding in report.findings if finding.id == "weights.all-zero"]
    assert finding.sentence == "model.layers.2.mlp.down_proj.weight holds zeros, wherever looked at."


def test_layers_that_are_copies(tmp_path: Path) -> None:
    def damage(tensors: dict) -> None:  # type: ignore[type-arg]
        tensors["model.layers.3.self_attn.q_proj.weight"] = tensors["model.layers.1.self_attn.q_proj.weight"]

    report = inspect(write(tmp_path, tensors=damage))
    (finding,) = [finding for finding in report.findings if finding.id == "weights.copies"]
    assert "model.layers.3.self_attn.q_proj.weight = model.layers.1.self_attn.q_proj.weight" in finding.sentence
    assert "weights.copies" not in found(write(tmp_path / "sound"))


def test_experts_that_are_copies(tmp_path: Path) -> None:
    def damage(tensors: dict) -> None:  # type: ignore[type-arg]
        tensors["model.layers.0.mlp.experts.4.up_proj.weight"] = tensors["model.layers.0.mlp.experts.2.up_proj.weight"]

    assert "weights.copies" in found(write(tmp_path, "Qwen3MoeForCausalLM", tensors=damage))
    assert "weights.copies" not in found(write(tmp_path / "sound", "Qwen3MoeForCausalLM"))


def test_copies_have_one_shape() -> None:
    ones = np.ones((4, 2))
    checkpoint = MemoryCheckpoint({"a": ones, "b": ones, "c": ones[:3], "d": ones * 2})
    assert find_copies(checkpoint, ["a", "b", "c", "d"]) == [("b", "a")]


def test_samples_lie_inside() -> None:
    assert sample(np.array([[1, 2]], dtype=np.uint8)).tolist() == [1, 2]
    assert sample(np.array([[1], [2], [3]], dtype=np.uint8)).tolist() == [2]
