"""GGUF metadata gives the ModelSpec that the same model's config.json gives."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.model_files import GgufTensor, f32, flags, gguf_matrix, i32s, llama_gguf, text, u32

from pelton.checkpoint.gguf.container import read_container
from pelton.checkpoint.gguf.spec import read_spec
from pelton.checkpoint.hf.spec import read_spec as read_config
from pelton.checkpoint.model_spec import LayerSpec, ModelSpec, Rope, RopeScaling
from pelton.checkpoint.rope import rotary_frequencies
from pelton.errors import CheckpointError

pytestmark = pytest.mark.unit

SIZES: dict[str, Any] = {
    "vocab_size": 8,
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "rms_norm_eps": 0.01,
    "rope_theta": 500.0,
    "torch_dtype": "float32",
    "tie_word_embeddings": True,
}
CLASSES = {
    "llama": "LlamaForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
    "gemma2": "Gemma2ForCausalLM",
    "gemma3": "Gemma3ForCausalLM",
    "phi3": "Phi3ForCausalLM",
    "olmo2": "Olmo2ForCausalLM",
    "granite": "GraniteForCausalLM",
    "smollm3": "SmolLM3ForCausalLM",
}
YARN = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}
FACTORS = {"short_factor": [1.0, 1.5], "long_factor": [2.0, 3.0]}


def vector(name: str, values: list[float]) -> GgufTensor:
    return GgufTensor(name=name.encode(), dims=(len(values),), payload=np.array(values, "<f4").tobytes())


def read(
    tmp_path: Path, architecture: str, *, tensors: list[GgufTensor] | None = None, **changes: bytes | None
) -> ModelSpec:
    path = tmp_path / "model.gguf"
    path.write_bytes(llama_gguf(architecture, tensors=tensors or [], **changes))
    return read_spec(read_container(path))


def config(architecture: str, **fields: Any) -> ModelSpec:
    return read_config({**SIZES, "architectures": [CLASSES[architecture]], **fields}, source="config.json")


BIASES = [vector(f"blk.0.{name}.bias", [0.0] * 16) for name in ("attn_q", "attn_output", "ffn_down")]
ROPE_FACTORS = [vector("rope_factors_long.weight", [2.0, 3.0]), vector("rope_factors_short.weight", [1.0, 1.5])]

# Name -> (architecture, keys and tensors of the GGUF, fields of config.json).
TWINS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "llama": ("llama", {}, {}),
    "llama head_dim": (
        "llama",
        {"ARCH__attention__key_length": u32(6), "ARCH__rope__dimension_count": u32(6)},
        {"head_dim": 6},
    ),
    "llama untied, biased": (
        "llama",
        {"tensors": [gguf_matrix("output.weight", 8, 16), *BIASES]},
        {"tie_word_embeddings": False, "attention_bias": True, "mlp_bias": True},
    ),
    "llama linear": (
        "llama",
        {"ARCH__rope__scaling__type": text("linear"), "ARCH__rope__scaling__factor": f32(4.0)},
        {"rope_scaling": {"type": "linear", "factor": 4.0}},
    ),
    "llama linear, first spelling": (
        "llama",
        {"ARCH__rope__scale_linear": f32(4.0)},
        {"rope_scaling": {"type": "linear", "factor": 4.0}},
    ),
    "qwen2 yarn": (
        "qwen2",
        {
            "tensors": BIASES[:1],
            "ARCH__rope__scaling__type": text("yarn"),
            "ARCH__rope__scaling__factor": f32(4.0),
            "ARCH__rope__scaling__original_context_length": u32(16),
            "ARCH__attention__head_count_kv": i32s([2, 2]),
        },
        {"rope_scaling": YARN},
    ),
    "qwen3": ("qwen3", {}, {"head_dim": 4}),
    "gemma2": (
        "gemma2",
        {
            "ARCH__attn_logit_softcapping": f32(7.0),
            "ARCH__final_logit_softcapping": f32(9.0),
            "ARCH__attention__sliding_window": u32(5),
        },
        {
            "head_dim": 4,
            "query_pre_attn_scalar": 4,
            "sliding_window": 5,
            "attn_logit_softcapping": 7.0,
            "final_logit_softcapping": 9.0,
        },
    ),
    "gemma3": (
        "gemma3",
        {
            "ARCH__attention__sliding_window": u32(5),
            "ARCH__block_count": u32(7),
            "ARCH__rope__scaling__type": text("linear"),
            "ARCH__rope__scaling__factor": f32(8.0),
        },
        {
            "head_dim": 4,
            "query_pre_attn_scalar": 4,
            "sliding_window": 5,
            "num_hidden_layers": 7,
            "rope_scaling": {"rope_type": "linear", "factor": 8.0},
        },
    ),
    "gemma3 local base": (
        "gemma3",
        {
            "ARCH__attention__sliding_window": u32(5),
            "ARCH__attention__sliding_window_pattern": flags([0, 1]),
            "ARCH__rope__freq_base_swa": f32(50.0),
        },
        {
            "head_dim": 4,
            "query_pre_attn_scalar": 4,
            "sliding_window": 5,
            "layer_types": ["full_attention", "sliding_attention"],
            "rope_local_base_freq": 50.0,
        },
    ),
    "phi3 longrope": (
        "phi3",
        {
            "tensors": ROPE_FACTORS,
            "ARCH__rope__scaling__attn_factor": f32(1.2247449),  # sqrt(1 + ln 4 / ln 16)
            "ARCH__rope__scaling__original_context_length": u32(16),
            "ARCH__attention__sliding_window": u32(0),
        },
        {"original_max_position_embeddings": 16, "rope_scaling": {"type": "longrope", **FACTORS}},
    ),
    "phi3 attention factor": (
        "phi3",
        {
            "tensors": ROPE_FACTORS,
            "ARCH__rope__scaling__attn_factor": f32(1.5),
            "ARCH__rope__scaling__original_context_length": u32(16),
            "ARCH__attention__sliding_window": u32(7),
        },
        {
            "original_max_position_embeddings": 16,
            "rope_scaling": {"type": "longrope", **FACTORS, "attention_factor": 1.5},
            "sliding_window": 7,
        },
    ),
    "olmo2": ("olmo2", {}, {}),
    "granite": (
        "granite",
        {
            "ARCH__attention__scale": f32(0.3),
            "ARCH__embedding_scale": f32(12.0),
            "ARCH__residual_scale": f32(0.22),
            "ARCH__logit_scale": f32(8.0),
        },
        {
            "attention_multiplier": 0.3,
            "embedding_multiplier": 12.0,
            "residual_multiplier": 0.22,
            "logits_scaling": 8.0,
        },
    ),
    "smollm3": ("smollm3", {"ARCH__block_count": u32(5)}, {"num_hidden_layers": 5}),
}


@pytest.mark.parametrize("name", TWINS)
def test_both_formats_give_one_spec(tmp_path: Path, name: str) -> None:
    architecture, keys, fields = TWINS[name]
    assert read(tmp_path, architecture, **keys) == config(architecture, **fields)


def test_gpt2_reads_positions_from_their_table(tmp_path: Path) -> None:
    keys: dict[str, bytes | None] = {
        "ARCH__rope__freq_base": None,
        "ARCH__attention__layer_norm_rms_epsilon": None,
        "ARCH__attention__head_count_kv": None,
        "ARCH__attention__layer_norm_epsilon": f32(0.01),
    }
    biases = [*BIASES[1:], vector("blk.0.attn_qkv.bias", [0.0] * 48)]
    spec = read(tmp_path, "gpt2", tensors=[gguf_matrix("position_embd.weight", 64, 16), *biases], **keys)
    fields = {"n_embd": 16, "n_head": 4, "n_layer": 2, "n_inner": 32, "n_positions": 64, "vocab_size": 8}
    expected = {**fields, "architectures": ["GPT2LMHeadModel"], "layer_norm_epsilon": 0.01, "dtype": "float32"}
    assert spec == read_config(expected, source="config.json")
    with pytest.raises(CheckpointError, match=r"position_embd\.weight is missing"):
        read(tmp_path, "gpt2", **keys)


def test_divisors_of_llama3_are_kept_as_they_are(tmp_path: Path) -> None:
    spec = read(tmp_path, "llama", tensors=[vector("rope_freqs.weight", [1.0, 8.0])])
    rope = spec.layers[0].rope
    assert rope is not None
    for length in (16, 4096):
        inv_freq, factor = rotary_frequencies(rope, length)
        assert inv_freq == pytest.approx((1.0, 500.0**-0.5 / 8.0), rel=1e-15)
        assert factor == 1.0
    assert spec.max_position == 64


def test_yarn_attention_factor_multiplies_the_one_that_is_always_there(tmp_path: Path) -> None:
    keys = {
        "ARCH__rope__scaling__type": text("yarn"),
        "ARCH__rope__scaling__factor": f32(4.0),
        "ARCH__rope__scaling__attn_factor": f32(0.5),
    }
    rope = read(tmp_path, "llama", **keys).layers[0].rope
    assert rope is not None
    assert rotary_frequencies(rope, 64)[1] == pytest.approx(0.5 * (0.1 * np.log(4.0) + 1.0), rel=1e-12)


def test_deepest_gemma_scales_by_hidden_size_per_head(tmp_path: Path) -> None:
    keys = {"ARCH__attention__sliding_window": u32(5), "ARCH__attention__key_length": u32(8)}
    shallow = read(tmp_path, "gemma3", ARCH__block_count=u32(61), **keys)
    deep = read(tmp_path, "gemma3", ARCH__block_count=u32(62), **keys)
    assert shallow.attention_scale == 8**-0.5
    assert deep.attention_scale == 4**-0.5


def test_mistral_is_a_llama_with_a_window(tmp_path: Path) -> None:
    spec = read(tmp_path, "llama", ARCH__attention__sliding_window=u32(5))
    assert spec.layers == (LayerSpec(rope=Rope(theta=500.0, rotary_dim=4), window=5),) * 2


def test_weight_dtype_is_what_most_bytes_are(tmp_path: Path) -> None:
    quantized = GgufTensor(name=b"output.weight", dims=(32, 64), type_id=8, payload=bytes(64 * 34))
    spec = read(tmp_path, "llama", tensors=[quantized])
    assert spec == replace(config("llama", tie_word_embeddings=False), weight_dtype="Q8_0")


@pytest.mark.parametrize(
    ("architecture", "keys", "message"),
    [
        ("lama", {}, "Did you mean 'llama'"),
        ("llama", {"ARCH__attention__head_count": u32(0)}, "head_count is 0"),
        ("llama", {"ARCH__attention__head_count": u32(32)}, "key_length"),
        ("llama", {"ARCH__attention__head_count_kv": u32(3)}, "cannot share 3"),
        ("llama", {"ARCH__attention__head_count_kv": i32s([2, 4])}, "differs between layers"),
        ("llama", {"ARCH__attention__head_count_kv": i32s([])}, "differs between layers"),
        ("llama", {"ARCH__attention__value_length": u32(8)}, "value_length differs"),
        ("llama", {"ARCH__block_count": u32(10**9)}, "at most 10000"),
        ("llama", {"ARCH__block_count": None}, "block_count is missing"),
        ("llama", {"ARCH__attention__layer_norm_rms_epsilon": None}, "epsilon is missing"),
        ("llama", {"ARCH__attention__layer_norm_rms_epsilon": f32(float("nan"))}, "epsilon is nan"),
        ("llama", {"ARCH__rope__freq_base": f32(float("inf"))}, "freq_base is inf"),
        ("llama", {"ARCH__rope__freq_base": text("10000")}, "freq_base is '10000'"),
        ("llama", {"ARCH__rope__dimension_count": u32(6)}, "dimension_count is 6"),
        ("llama", {"ARCH__rope__scaling__type": text("ntk")}, "rope.scaling.type 'ntk'"),
        ("llama", {"ARCH__rope__scaling__type": text("longrope")}, "rope_factors_short and _long are missing"),
        ("qwen2", {"ARCH__expert_count": u32(8)}, "expert_count is 8"),
        ("llama", {"ARCH__expert_count": u32(8)}, "expert_used_count is missing"),
        ("llama", {"ARCH__expert_count": u32(8), "ARCH__expert_used_count": u32(9)}, "to 9 of 8 experts"),
        ("qwen3moe", {"ARCH__expert_used_count": u32(2)}, "expert_count is missing"),
        ("llama", {"ARCH__attention__gizmo": u32(8)}, "'attention.gizmo' .8. is not known"),
        ("llama", {"ARCH__vocab_size": u32(9)}, "vocab_size is 9"),
        ("qwen2", {"ARCH__rope__freq_base": None}, "freq_base is missing"),
        ("gemma2", {}, "attn_logit_softcapping is missing"),
        ("gemma3", {}, "sliding_window is missing"),
        (
            "gemma3",
            {"ARCH__attention__sliding_window": u32(5), "ARCH__attention__sliding_window_pattern": flags([1])},
            "2 boo",
        ),
        ("phi3", {"tensors": ROPE_FACTORS[:1]}, "longrope needs both"),
        ("llama", {"tensors": [vector("rope_freqs.weight", [1.0])]}, r"expected F32 \[2\]"),
        ("llama", {"tensors": [vector("rope_freqs.weight", [1.0, 0.0])]}, "not above 0"),
        (
            "llama",
            {"tensors": [vector("rope_freqs.weight", [1.0, 2.0])], "ARCH__rope__scaling__factor": f32(2.0)},
            "both rope_freqs.weight and linear",
        ),
    ],
)
def test_what_cannot_be_computed_is_refused(
    tmp_path: Path, architecture: str, keys: dict[str, Any], message: str
) -> None:
    with pytest.raises(CheckpointError, match=message):
        read(tmp_path, architecture, **keys)


def test_linear_scaling_of_gemma3_is_of_full_layers_only(tmp_path: Path) -> None:
    architecture, keys, _ = TWINS["gemma3"]
    layers = read(tmp_path, architecture, **keys).layers
    assert layers[4] == LayerSpec(rope=Rope(theta=10000.0, rotary_dim=4), window=5)
    scaled = Rope(theta=500.0, rotary_dim=4, scaling=RopeScaling(kind="linear", factor=8.0))
    assert layers[5] == LayerSpec(rope=scaled)
