"""Two specifications are the same model if they compute the same, and every difference is named."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from tests.conversion.llama import LLAMA

from pelton.checkpoint.model_spec import ModelSpec, Rope, RopeScaling
from pelton.checkpoint.rope import rotary_frequencies
from pelton.conversion.spec_loss import compare_specs, is_close, is_same_rope

pytestmark = pytest.mark.unit


def test_a_model_is_itself_and_a_mistral_is_a_llama_with_a_window() -> None:
    assert compare_specs(LLAMA, LLAMA) == []
    assert compare_specs(replace(LLAMA, architecture="mistral"), LLAMA) == []
    assert compare_specs(replace(LLAMA, weight_dtype="Q4_K"), LLAMA) == []


CHANGED: dict[str, Any] = {
    "activation": "relu",
    "norm_style": "layer",
    "qk_norm": "head",
    "architecture": "qwen2",
}


@pytest.mark.parametrize(
    "name", [f.name for f in fields(ModelSpec) if f.name not in ("layers", "weight_dtype", "experts")]
)
def test_every_field_counts(name: str) -> None:
    value = getattr(LLAMA, name)
    if isinstance(value, bool):
        other: Any = not value
    else:
        other = CHANGED[name] if name in CHANGED else 3.5 if value is None else value * 2 + 1
    (found,) = compare_specs(LLAMA, replace(LLAMA, **{name: other}))
    assert (found.field, found.source, found.target) == (name, value, other)


def test_layers_are_named() -> None:
    layers = (*LLAMA.layers[:-1], replace(LLAMA.layers[-1], window=7))
    last = LLAMA.num_layers - 1
    assert [each.field for each in compare_specs(LLAMA, replace(LLAMA, layers=layers))] == [f"layers[{last}].window"]
    assert [each.field for each in compare_specs(LLAMA, replace(LLAMA, layers=LLAMA.layers[1:]))] == ["num_layers"]


def test_a_float32_is_near_enough_and_nothing_else_is() -> None:
    assert is_close(0.1, float(np.float32(0.1)))
    assert not is_close(1e-5, 1e-6)
    assert not is_close(0.1, 0.1001)


def test_ropes_are_compared_by_the_angles_they_give() -> None:
    llama3 = Rope(
        theta=500.0,
        rotary_dim=20,
        scaling=RopeScaling(
            kind="llama3", factor=8.0, original_max_position=24, low_freq_factor=1.5, high_freq_factor=5.0
        ),
    )
    plain, _ = rotary_frequencies(replace(llama3, scaling=None), 128)
    stretched, _ = rotary_frequencies(llama3, 128)
    divisors = tuple(float(np.float32(a / b)) for a, b in zip(plain, stretched, strict=True))
    told = RopeScaling(
        kind="longrope",
        attention_factor=1.0,
        original_max_position=128,
        short_factors=divisors,
        long_factors=divisors,
    )
    assert is_same_rope(llama3, replace(llama3, scaling=told), 128)
    assert not is_same_rope(llama3, replace(llama3, scaling=None), 128)
    assert not is_same_rope(llama3, replace(llama3, theta=501.0), 128)
    assert not is_same_rope(llama3, None, 128)
    assert is_same_rope(None, None, 128)
    long = replace(told, long_factors=tuple(2 * each for each in divisors), original_max_position=64)
    assert not is_same_rope(replace(llama3, scaling=told), replace(llama3, scaling=long), 128)
    louder = replace(told, attention_factor=1.2)
    assert not is_same_rope(replace(llama3, scaling=told), replace(llama3, scaling=louder), 128)
