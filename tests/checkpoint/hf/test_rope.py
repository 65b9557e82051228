"""Details of the rotary part of a config.json. Whole configurations in both spellings: test_spec.py."""

from __future__ import annotations

from typing import Any

import pytest

from pelton.checkpoint.fields import Fields
from pelton.checkpoint.hf.rope import RopeDefaults, read_rope, read_rope_by_layer_type
from pelton.checkpoint.model_spec import Rope, RopeScaling
from pelton.errors import CheckpointError

pytestmark = pytest.mark.unit

DEFAULTS = RopeDefaults(head_dim=8, max_position=64, theta=10000.0)


def read(**config: Any) -> Rope:
    fields = Fields("x", config)
    rope = read_rope(fields, DEFAULTS)
    fields.check_all_read()
    return rope


def test_what_is_inside_wins() -> None:
    inside = {"rope_theta": 5.0, "partial_rotary_factor": 0.5}
    assert read(rope_theta=7.0, partial_rotary_factor=0.25, rope_parameters=inside) == Rope(theta=5.0, rotary_dim=4)
    assert read(rope_theta=7.0, partial_rotary_factor=0.25, rope_parameters={}) == Rope(theta=7.0, rotary_dim=2)


@pytest.mark.parametrize(
    ("beside", "inside", "length"), [(None, None, 64), (None, 16, 16), (32, None, 32), (32, 16, 32)]
)
def test_the_original_length_beside_wins(beside: int | None, inside: int | None, length: int) -> None:
    scaling = {"rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": inside}
    rope = read(original_max_position_embeddings=beside, rope_scaling=scaling)
    assert rope.scaling == RopeScaling(kind="yarn", factor=2.0, original_max_position=length)


def test_a_missing_yarn_factor_is_the_ratio_of_lengths() -> None:
    scaling = read(rope_scaling={"rope_type": "yarn", "original_max_position_embeddings": 16}).scaling
    assert scaling is not None
    assert scaling.factor == 4.0


def test_frequencies_of_llama3_must_be_in_order() -> None:
    scaling = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 4.0, "high_freq_factor": 4.0}
    with pytest.raises(CheckpointError, match=r"low_freq_factor 4\.0 must be below"):
        read(rope_scaling=scaling)


def test_longrope_needs_both_lists_of_positive_numbers() -> None:
    with pytest.raises(CheckpointError, match="longrope needs both"):
        read(rope_scaling={"rope_type": "longrope", "short_factor": [1.0] * 4})
    with pytest.raises(CheckpointError, match="each above 0"):
        read(rope_scaling={"rope_type": "longrope", "short_factor": [1.0] * 4, "long_factor": [0.0] * 4})


def test_layer_types_refuse_what_they_do_not_know() -> None:
    nested = {
        "full_attention": {"rope_theta": 5.0},
        "sliding_attention": None,
        "chunked_attention": {"rope_theta": 1.0},
    }
    with pytest.raises(CheckpointError, match="'chunked_attention'"):
        read_rope_by_layer_type(Fields("x", {"rope_parameters": nested}), DEFAULTS, 50.0)
    del nested["chunked_attention"]
    ropes = read_rope_by_layer_type(Fields("x", {"rope_parameters": nested}), DEFAULTS, 50.0)
    assert {name: rope.theta for name, rope in ropes.items()} == {"full_attention": 5.0, "sliding_attention": 50.0}
    with pytest.raises(CheckpointError, match="has both"):
        read_rope_by_layer_type(Fields("x", {"rope_parameters": nested, "rope_scaling": {}}), DEFAULTS, 50.0)
