"""Hostile configurations: whatever a field holds, it is refused with a CheckpointError or can be computed with."""

from __future__ import annotations

import math
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pelton.checkpoint.hf.spec import read_spec
from pelton.checkpoint.rope import rotary_frequencies
from pelton.errors import CheckpointError

pytestmark = pytest.mark.cpu  # thousands of files

SIZES: dict[str, Any] = {
    "vocab_size": 96,
    "hidden_size": 48,
    "intermediate_size": 80,
    "num_hidden_layers": 4,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 64,
    "rms_norm_eps": 0.01,
    "rope_theta": 500.0,
    "tie_word_embeddings": True,
    "layer_types": None,
    "sliding_window": None,
}
LONGROPE = {"type": "longrope", "short_factor": [1.0, 1.5, 2.0, 2.5], "long_factor": [2.0, 3.0, 4.0, 5.0]}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
YARN = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16, "beta_fast": 8.0, "beta_slow": 2.0}
CONFIGS: dict[str, dict[str, Any]] = {
    "LlamaForCausalLM": {"rope_scaling": LLAMA3, "sliding_window": None},
    "MistralForCausalLM": {"rope_scaling": YARN, "sliding_window": 8},
    "Qwen2ForCausalLM": {"rope_scaling": {"type": "dynamic", "factor": 2.0}, "use_sliding_window": True},
    "Gemma2ForCausalLM": {"query_pre_attn_scalar": 8, "attn_logit_softcapping": 50.0, "rope_scaling": None},
    "Gemma3ForCausalLM": {"rope_local_base_freq": 10.0, "rope_scaling": {"rope_type": "linear", "factor": 8.0}},
    "Phi3ForCausalLM": {"rope_scaling": LONGROPE, "original_max_position_embeddings": 16},
    "GraniteForCausalLM": {"logits_scaling": 8.0, "attention_multiplier": 0.1, "rope_scaling": None},
    "SmolLM3ForCausalLM": {"no_rope_layers": [1, 0, 0, 1], "no_rope_layer_interval": 4, "rope_scaling": None},
}
NUMBERS = [0, -1, 1, 2, 3, 7, 10**9, 1 << 62, 10**400, 0.0, -0.5, 1.0, 1e-300, 1e300, math.inf, math.nan, True]
VALUES = st.one_of(
    st.sampled_from(NUMBERS),
    st.sampled_from(["", "1", "silu", "\x1b[2J", None, [], {}, [1], [[]], {"a": 1}, ["full_attention"] * 4]),
    st.sampled_from([LONGROPE, LLAMA3, YARN, {"rope_type": None}, {"type": []}, {"rope_theta": 1.0}]),
)


@settings(max_examples=600, deadline=None)
@given(st.sampled_from(sorted(CONFIGS)), st.data())
def test_any_value_anywhere_is_refused_or_computable(architecture: str, data: st.DataObject) -> None:
    config = {"architectures": [architecture], **SIZES, **CONFIGS[architecture]}
    for _ in range(data.draw(st.integers(1, 3))):
        scaling = config["rope_scaling"]
        is_inner = isinstance(scaling, dict) and bool(scaling) and data.draw(st.booleans())
        target = dict(scaling) if is_inner else config
        target[data.draw(st.sampled_from(sorted(target)))] = data.draw(VALUES)
        if is_inner:
            config["rope_scaling"] = target
    with suppress(CheckpointError):
        spec = read_spec(config, source="config.json")
        for rope in {layer.rope for layer in spec.layers if layer.rope is not None}:
            inv_freq, factor = rotary_frequencies(rope, spec.max_position)
            assert 2 * len(inv_freq) == rope.rotary_dim
            assert all(0.0 <= frequency < math.inf for frequency in (*inv_freq, factor))
        assert spec.num_heads % spec.num_kv_heads == 0
