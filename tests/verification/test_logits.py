"""Logits are compared where lengths matter, and the layer where they part is named."""

from __future__ import annotations

from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file
from tests.models.architectures import make_model
from tests.verification.small_model import make_small

from pelton.checkpoint.checkpoint import open_checkpoint
from pelton.verification.logits import compare_logits, list_prompts

pytestmark = pytest.mark.cpu


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("llama", {"short": 24}),
        ("gemma3", {"short": 24, "beyond the window": 18}),
        ("phi3-longrope", {"short": 24, "beyond the original context": 25}),
    ],
)
def test_prompts_go_beyond_what_matters(name: str, expected: dict[str, int], tmp_path: Path) -> None:
    make_model(name, tmp_path)
    with open_checkpoint(tmp_path) as checkpoint:
        assert {kind: len(ids) for kind, ids in list_prompts(checkpoint.spec, 100).items()} == expected
        assert set(list_prompts(checkpoint.spec, 24)) <= {"short", "beyond the window"}


def test_experts_that_were_given_a_token_are_counted(tmp_path: Path) -> None:
    make_small("experts", tmp_path)
    with open_checkpoint(tmp_path) as ours, open_checkpoint(tmp_path) as theirs:
        record, findings = compare_logits(ours, theirs, most=160, budget=1e-6, on_step=lambda count: None)
        few, noted = compare_logits(ours, theirs, most=24, budget=1e-6, on_step=lambda count: None)
        layers = sum(layer.has_experts for layer in ours.spec.layers)
    assert (record.num_experts, record.num_experts_chosen, findings) == (12 * layers, 12 * layers, [])
    assert len(record.prompts["many experts"]) == 128
    assert few.num_experts_chosen <= few.num_experts
    assert [finding.id for finding in noted] == ["L4.EXPERTS"] * (few.num_experts_chosen < few.num_experts)


@pytest.mark.parametrize("layer", [0, 2, 3])
def test_the_first_layer_that_differs_is_named(layer: int, tmp_path: Path) -> None:
    for name in ("one", "two"):
        make_model("llama", tmp_path / name)
    path = tmp_path / "two" / "model.safetensors"
    weights = load_file(path)
    weights[f"model.layers.{layer}.mlp.down_proj.weight"] *= 1.5
    save_file(weights, path, metadata={"format": "pt"})
    with open_checkpoint(tmp_path / "one") as ours, open_checkpoint(tmp_path / "two") as theirs:
        record, findings = compare_logits(ours, theirs, most=64, budget=1e-6, on_step=lambda count: None)
    assert {finding.id for finding in findings} == {"L4.LOGITS:short", f"L4.LAYER:{layer}"}
    assert record.worst > 1e-3
    assert record.decode_kl < 1e-6
    assert all(kl < 1e-9 for kl in record.layers[:layer])
