"""Sizes that contradict one another are refused, whichever format they come from."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pelton.checkpoint.model_spec import Experts, LayerSpec, ModelSpec, Rope, RopeScaling
from pelton.checkpoint.spec_check import check_spec
from pelton.errors import CheckpointError

pytestmark = pytest.mark.unit

SOUND = ModelSpec(
    architecture="llama",
    vocab_size=8,
    hidden_size=16,
    intermediate_size=32,
    num_heads=4,
    num_kv_heads=2,
    head_dim=4,
    max_position=64,
    layers=(LayerSpec(rope=Rope(theta=10.0, rotary_dim=4)), LayerSpec(rope=None)),
    norm_eps=1e-5,
    attention_scale=0.5,
)


def yarn(**changes: Any) -> RopeScaling:
    return RopeScaling(**{"kind": "yarn", "factor": 2.0, "original_max_position": 16, **changes})


def experts(**changes: Any) -> Experts:
    sizes = {"num_experts": 8, "num_experts_per_token": 2, "intermediate_size": 4, "normalised": True}
    return Experts(**{**sizes, **changes})


def test_a_sound_spec_passes() -> None:
    check_spec(SOUND, "x")
    check_spec(replace(SOUND, experts=experts()), "x")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"head_dim": 0}, "the sizes"),
        ({"vocab_size": 1 << 40}, "the sizes"),
        ({"head_dim": 1 << 20}, "heads of 1048576 dimensions"),
        ({"num_kv_heads": 3}, "4 attention heads cannot share 3"),
        ({"num_kv_heads": 0}, "cannot share 0"),
        ({"norm_eps": 0.0}, "epsilon is 0.0"),
        ({"norm_eps": 2.0}, "epsilon is 2.0"),
        ({"logits_divisor": 0.0}, "divides by zero"),
        ({"attention_scale": float("inf")}, "not a finite number"),
        ({"experts": experts(num_experts_per_token=0)}, "goes to 0 of 8 experts"),
        ({"experts": experts(num_experts_per_token=9)}, "goes to 9 of 8 experts"),
        ({"experts": experts(num_experts=1 << 20)}, "of 1048576 experts"),
        ({"experts": experts(intermediate_size=0)}, "experts of 0 and"),
        ({"layers": (LayerSpec(rope=Rope(theta=10.0, rotary_dim=6)),)}, "6 rotary dimensions"),
        ({"layers": (LayerSpec(rope=Rope(theta=10.0, rotary_dim=3)),)}, "3 rotary dimensions"),
    ],
)
def test_contradictions_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(CheckpointError, match=f"x: .*{message}"):
        check_spec(replace(SOUND, **change), "x")


@pytest.mark.parametrize(
    ("rope", "message"),
    [
        (Rope(theta=1.0, rotary_dim=4), "the rotary base is 1.0"),
        (
            Rope(theta=9.0, rotary_dim=4, scaling=RopeScaling(kind="yarn", original_max_position=1)),
            "length of 1 tokens",
        ),
        (Rope(theta=9.0, rotary_dim=4, scaling=yarn(beta_fast=-1.0)), "beta_fast -1.0 must be above"),
        (Rope(theta=9.0, rotary_dim=4, scaling=yarn(attention_factor=0.0)), "attention factor is 0.0"),
        (Rope(theta=9.0, rotary_dim=2, scaling=yarn(kind="dynamic")), "more than 2 rotary dimensions"),
    ],
)
def test_ropes_that_have_no_frequencies_are_refused(rope: Rope, message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        check_spec(replace(SOUND, layers=(LayerSpec(rope=rope),)), "x")
