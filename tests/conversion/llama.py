"""A small Llama's specification, for tests of its own."""

from __future__ import annotations

from pelton.checkpoint.model_spec import LayerSpec, ModelSpec, Rope

LLAMA = ModelSpec(
    architecture="llama",
    vocab_size=97,
    hidden_size=64,
    intermediate_size=88,
    num_heads=6,
    num_kv_heads=2,
    head_dim=16,
    max_position=128,
    layers=(LayerSpec(rope=Rope(theta=777.0, rotary_dim=16)),) * 3,
    norm_eps=3e-3,
    attention_scale=16**-0.5,
)
