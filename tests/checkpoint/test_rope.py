"""Frequencies against transformers' own functions, and the choices that we make once where it makes them per step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from transformers import AutoConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from pelton.checkpoint.hf.spec import read_spec
from pelton.checkpoint.model_spec import Rope, RopeScaling
from pelton.checkpoint.rope import rotary_frequencies, stretched_length

pytestmark = pytest.mark.unit

ORIGINAL = 64
SCALINGS: dict[str, dict[str, Any]] = {
    "linear": {"rope_type": "linear", "factor": 4.0},
    "dynamic": {"rope_type": "dynamic", "factor": 4.0},
    "yarn": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": ORIGINAL},
    "yarn betas": {
        "rope_type": "yarn",
        "factor": 8.0,
        "original_max_position_embeddings": 32,
        "beta_fast": 4.0,
        "beta_slow": 0.5,
        "attention_factor": 1.25,
    },
    "yarn mscale": {
        "rope_type": "yarn",
        "factor": 8.0,
        "original_max_position_embeddings": ORIGINAL,
        "mscale": 1.0,
        "mscale_all_dim": 0.5,
        "truncate": False,
    },
    "llama3": {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": ORIGINAL,
    },
    "longrope": {
        "rope_type": "longrope",
        "short_factor": [1.0 + 0.1 * i for i in range(16)],
        "long_factor": [2.0 + 0.5 * i for i in range(16)],
        "original_max_position_embeddings": 32,
    },
    "longrope factor": {
        "rope_type": "longrope",
        "short_factor": [1.0] * 16,
        "long_factor": [2.0] * 16,
        "original_max_position_embeddings": 32,
        "factor": 0.5,
    },
}


def make_config(scaling: dict[str, Any]) -> Any:
    """A small Llama of transformers with these rope parameters."""
    return AutoConfig.for_model(
        "llama",
        hidden_size=128,
        num_attention_heads=4,
        num_hidden_layers=1,
        max_position_embeddings=ORIGINAL,
        rope_parameters={"rope_theta": 10000.0, **scaling},
    )


def read_rope(config: Any) -> Rope:
    """The rope of the only layer, read from what transformers writes."""
    spec = read_spec({**config.to_dict(), "architectures": ["LlamaForCausalLM"]}, source="config.json")
    rope = spec.layers[0].rope
    assert rope is not None
    return rope


@pytest.mark.parametrize("name", SCALINGS)
@pytest.mark.parametrize("length", [16, ORIGINAL, 512])
def test_frequencies_are_those_of_transformers(name: str, length: int) -> None:
    config = make_config(SCALINGS[name])
    compute = ROPE_INIT_FUNCTIONS[config.rope_parameters["rope_type"]]
    expected, expected_factor = compute(config, device="cpu", seq_len=length)
    inv_freq, factor = rotary_frequencies(read_rope(config), length)
    # transformers computes in float32: a handful of roundings of 2^-24 each.
    np.testing.assert_allclose(inv_freq, expected.numpy(), rtol=2e-6)
    assert factor == pytest.approx(expected_factor, rel=1e-12)


def test_without_scaling_the_base_alone_decides() -> None:
    inv_freq, factor = rotary_frequencies(Rope(theta=10000.0, rotary_dim=4), 100)
    assert inv_freq == pytest.approx((1.0, 0.01), rel=1e-15)
    assert factor == 1.0


@pytest.mark.parametrize("name", ["dynamic", "longrope"])
def test_the_longest_text_decides_once(name: str) -> None:
    rope = read_rope(make_config(SCALINGS[name]))
    assert rope.scaling is not None
    original = rope.scaling.original_max_position
    assert rotary_frequencies(rope, 1) == rotary_frequencies(rope, original)
    assert rotary_frequencies(rope, original) != rotary_frequencies(rope, original + 1)


@pytest.mark.parametrize("name", ["linear", "yarn", "llama3"])
def test_the_other_kinds_do_not_depend_on_the_limit(name: str) -> None:
    rope = read_rope(make_config(SCALINGS[name]))
    assert rotary_frequencies(rope, 16) == rotary_frequencies(rope, 4096)


def test_stretched_length_of_no_scaling_is_the_length_given() -> None:
    assert stretched_length(100, None) == 100
    assert stretched_length(100, RopeScaling(kind="dynamic", factor=2.5, original_max_position=100)) == 250
