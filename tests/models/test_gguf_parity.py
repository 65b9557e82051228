"""A model gives the same logits from its Hugging Face directory and from the GGUF file a converter makes of it.

Names of tensors come from the `gguf` package's own table; what converters permute and add is done here by hand.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from tests.models.architectures import CASES, make_model
from tests.models.test_parity import PROMPT, load

from pelton.backends.reference import ReferenceBackend
from pelton.runner.direct_step import logits_of

pytestmark = pytest.mark.cpu

ARCHITECTURES = {
    "llama": gguf.MODEL_ARCH.LLAMA,
    "llama-tied-biased": gguf.MODEL_ARCH.LLAMA,
    "qwen2": gguf.MODEL_ARCH.QWEN2,
    "qwen3": gguf.MODEL_ARCH.QWEN3,
    "gemma2": gguf.MODEL_ARCH.GEMMA2,
    "gemma3": gguf.MODEL_ARCH.GEMMA3,
    "phi3": gguf.MODEL_ARCH.PHI3,
    "olmo2": gguf.MODEL_ARCH.OLMO2,
    "granite": gguf.MODEL_ARCH.GRANITE,
    "smollm3": gguf.MODEL_ARCH.SMOLLM3,
    "gpt2": gguf.MODEL_ARCH.GPT2,
    "mixtral": gguf.MODEL_ARCH.LLAMA,
    "qwen2_moe": gguf.MODEL_ARCH.QWEN2MOE,
    "qwen3_moe": gguf.MODEL_ARCH.QWEN3MOE,
}
# What a GGUF file cannot say, and its readers take for granted.
IMPLIED: dict[str, dict[str, Any]] = {
    "llama-tied-biased": {"hidden_act": "silu"},
    "gemma2": {"query_pre_attn_scalar": 20},
    "gemma3": {
        "query_pre_attn_scalar": 20,
        "num_hidden_layers": 7,
        "layer_types": ["sliding_attention"] * 5 + ["full_attention", "sliding_attention"],
        "rope_parameters": {
            "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
            "full_attention": {"rope_type": "default", "rope_theta": 900.0},
        },
    },
    "smollm3": {"no_rope_layers": [1, 1, 1, 0]},
    "mixtral": {"hidden_act": "silu"},
    "qwen2_moe": {"use_sliding_window": False, "layer_types": None, "decoder_sparse_step": 1},
    "qwen3_moe": {"mlp_only_layers": []},
}
PERMUTED = ("llama", "granite", "smollm3", "mixtral")  # families whose converter pairs neighbouring dimensions


def permuted(rows: np.ndarray, num_heads: int) -> np.ndarray:
    """What the converter does to q and k: half-split pairs become neighbours."""
    halves = rows.reshape(num_heads, 2, rows.shape[0] // num_heads // 2, *rows.shape[1:])
    return halves.swapaxes(1, 2).reshape(rows.shape)


def write_gguf(name: str, model: torch.nn.Module, path: Path) -> None:
    arch, config = ARCHITECTURES[name], model.config
    writer = gguf.GGUFWriter(path, gguf.MODEL_ARCH_NAMES[arch])
    add_metadata(writer, name, config)
    num_layers = config.num_hidden_layers
    names = gguf.get_tensor_name_map(arch, num_layers)
    family = name.partition("-")[0]
    for key, tensor in model.state_dict().items():
        if key == "lm_head.weight" and config.tie_word_embeddings:
            continue
        array = tensor.float().numpy()
        if family == "gpt2" and array.ndim == 2 and ".h." in key:
            array = array.T
        if family in PERMUTED and ".q_proj." in key:
            array = permuted(array, config.num_attention_heads)
        if family in PERMUTED and ".k_proj." in key:
            array = permuted(array, config.num_key_value_heads)
        if family in ("gemma2", "gemma3") and key.endswith("norm.weight"):
            array = array + 1
        if key.endswith("shared_expert_gate.weight"):
            array = array[0]
        for part, piece in gates_and_ups(key, array):
            new_name = names.get_name(part, try_suffixes=(".weight", ".bias"))
            assert new_name is not None, f"gguf knows no name for {part}"
            writer.add_tensor(new_name, np.ascontiguousarray(piece, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def gates_and_ups(key: str, array: np.ndarray) -> list[tuple[str, np.ndarray]]:
    """Gates and ups of all experts, which transformers keeps in one tensor, apart; everything else as it is."""
    if key.endswith("experts.down_proj"):
        return [(f"{key}.weight", array)]
    if not key.endswith("experts.gate_up_proj"):
        return [(key, array)]
    below, half = key.removesuffix("gate_up_proj"), array.shape[1] // 2
    return [(f"{below}gate_proj.weight", array[:, :half]), (f"{below}up_proj.weight", array[:, half:])]


def add_metadata(writer: gguf.GGUFWriter, name: str, config: Any) -> None:
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    writer.add_vocab_size(config.vocab_size)
    if name == "gpt2":
        writer.add_feed_forward_length(config.n_inner)
        writer.add_layer_norm_eps(config.layer_norm_epsilon)
        return
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_key_length(head_dim)
    writer.add_value_length(head_dim)
    writer.add_rope_dimension_count(head_dim)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    rope = config.rope_parameters.get("full_attention", config.rope_parameters)
    writer.add_rope_freq_base(rope["rope_theta"])
    if name == "gemma2":
        writer.add_attn_logit_softcapping(config.attn_logit_softcapping)
        writer.add_final_logit_softcapping(config.final_logit_softcapping)
    if name in ("gemma2", "gemma3", "phi3", "mixtral"):
        writer.add_sliding_window(config.sliding_window)
    if "num_experts_per_tok" in config.to_dict():
        writer.add_expert_count(config.num_experts)
        writer.add_expert_used_count(config.num_experts_per_tok)
    if name in ("qwen2_moe", "qwen3_moe"):
        writer.add_expert_feed_forward_length(config.moe_intermediate_size)
    if name == "qwen2_moe":
        writer.add_expert_shared_feed_forward_length(config.shared_expert_intermediate_size)
    if name == "granite":
        writer.add_attention_scale(config.attention_multiplier)
        writer.add_embedding_scale(config.embedding_multiplier)
        writer.add_residual_scale(config.residual_multiplier)
        writer.add_logit_scale(config.logits_scaling)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_gguf_and_hugging_face_files_of_a_model_give_the_same_logits(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    family, settings = CASES[name]
    monkeypatch.setitem(CASES, name, (family, {**settings, **IMPLIED.get(name, {})}))
    model = make_model(name, tmp_path)
    write_gguf(name, model, tmp_path / "model.gguf")
    expected, actual = (load(path, ReferenceBackend("float32")) for path in (tmp_path, tmp_path / "model.gguf"))
    logits = [logits_of(x, PROMPT, [2, 1], chunk=64, max_blocks=2) for x in (expected, actual)]
    np.testing.assert_allclose(logits[1], logits[0], rtol=0, atol=1e-5 * float(logits[0].std()))
