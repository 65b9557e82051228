from dataclasses import replace

import pytest

from pelton.checkpoint.model_spec import Experts, LayerSpec, ModelSpec, Rope, RopeScaling
from pelton.inspection import words

pytestmark = pytest.mark.unit
FULL = LayerSpec(rope=Rope(theta=1e6, rotary_dim=16))
LOCAL = LayerSpec(rope=Rope(theta=1e4, rotary_dim=16), window=512)
SPEC = ModelSpec(
    architecture="x",
    vocab_size=1000,
    hidden_size=64,
    intermediate_size=96,
    num_heads=4,
    num_kv_heads=1,
    head_dim=16,
    max_position=4096,
    layers=(LOCAL, FULL, LOCAL, FULL),
    norm_eps=1e-6,
    attention_scale=0.25,
)


def test_windows_and_their_bases() -> None:
    assert words.describe_context(SPEC) == "4,096 tokens, a window of 512; full attention in layers 1, 3"
    assert words.describe_rope(SPEC) == (
        "windowed layers: rotary, base 10,000, no scaling; 2 layers: rotary, base 1,000,000, no scaling"
    )
    assert words.describe_context(replace(SPEC, layers=(LOCAL,) * 2)).endswith("a window of 512 in every layer")


def test_layers_without_positions() -> None:
    spec = replace(SPEC, layers=(FULL, LayerSpec(rope=None)))
    assert words.describe_rope(spec) == "1 layer: rotary, base 1,000,000, no scaling; 1 layer: none"
    assert words.describe_rope(replace(spec, learned_positions=1024)) == "learned, 1,024 rows"


@pytest.mark.parametrize(
    ("scaling", "expected"),
    [
        (RopeScaling(kind="linear", factor=8.0), "linear scaling by 8"),
        (RopeScaling(kind="yarn", factor=4.0, original_max_position=32768), "yarn scaling by 4 from 32,768 tokens"),
        (
            RopeScaling(kind="longrope", original_max_position=4096, short_factors=(1.0,), long_factors=(2.0,)),
            "longrope from 4,096 tokens",
        ),
        (
            RopeScaling(kind="longrope", short_factors=(1.0, 8.0), long_factors=(1.0, 8.0)),
            "frequencies divided by 1 to 8",
        ),
    ],
)
def test_scalings(scaling: RopeScaling, expected: str) -> None:
    assert words.describe_scaling(scaling) == expected


def test_what_is_unusual_is_said() -> None:
    experts = Experts(
        num_experts=8, num_experts_per_token=2, intermediate_size=32, normalised=True, shared_intermediate_size=48
    )
    spec = replace(
        SPEC,
        qkv_bias=True,
        mlp_bias=True,
        qk_norm="head",
        attention_scale=0.5,
        attention_softcap=50.0,
        logits_softcap=30.0,
        experts=experts,
        layers=(replace(FULL, has_experts=True), FULL),
        embedding_multiplier=8.0,
        residual_multiplier=0.2,
        logits_divisor=4.0,
        tied_embeddings=True,
    )
    assert words.describe_heads(spec) == (
        "4 heads of 16 dimensions over 1 key/value head, biases on q, k, v and MLP, q and k normalised per head, "
        "scores scaled by 0.5, scores capped at 50, logits capped at 30"
    )
    assert words.describe_shape(spec) == (
        "2 layers of 64 channels, 2 of 8 experts of 32, one shared of 48 in 1 of the layers, otherwise MLP 96 (silu)"
    )
    assert words.describe_head(spec) == (
        "1,000 rows, head tied to the embedding, embedding times 8, residuals times 0.2, logits divided by 4"
    )
