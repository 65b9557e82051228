"""What transformers assumes for a model family where its config.json is silent, and what of it we do not look at.

A missing field means the default of that family's own configuration class, never a universal one, so each family
states all of its defaults. Source: the configuration classes of transformers 5.24; version 4 had the same values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

# Fields of every family that change nothing of what is computed for given tokens: identity, training, generation
# (read from generation_config.json), and how transformers itself would run the model.
INERT = frozenset(
    {
        "architectures",
        "model_type",
        "transformers_version",
        "auto_map",
        "torch_dtype",
        "dtype",
        "name_or_path",
        "tokenizer_class",
        "prefix",
        "task_specific_params",
        "id2label",
        "label2id",
        "num_labels",
        "problem_type",
        "finetuning_task",
        "license",
        "pretraining_tp",
        "bos_token_id",
        "eos_token_id",
        "pad_token_id",
        "sep_token_id",
        "unk_token_id",
        "decoder_start_token_id",
        "use_cache",
        "cache_implementation",
        "return_dict",
        "return_dict_in_generate",
        "output_hidden_states",
        "output_attentions",
        "output_scores",
        "torchscript",
        "tf_legacy_loss",
        "use_bfloat16",
        "chunk_size_feed_forward",
        "gradient_checkpointing",
        "initializer_range",
        "attention_dropout",
        "hidden_dropout",
        "resid_pdrop",
        "embd_pdrop",
        "attn_pdrop",
        "max_length",
        "min_length",
        "do_sample",
        "early_stopping",
        "num_beams",
        "num_beam_groups",
        "diversity_penalty",
        "temperature",
        "top_k",
        "top_p",
        "typical_p",
        "repetition_penalty",
        "length_penalty",
        "no_repeat_ngram_size",
        "encoder_no_repeat_ngram_size",
        "num_return_sequences",
        "exponential_decay_length_penalty",
        "unsloth_version",
        "unsloth_fixed",
        "transformers.js_config",
    }
)

# Fields that, at any other value than these, would ask for mathematics that is not here.
REQUIRED: Mapping[str, tuple[object, ...]] = {
    "is_encoder_decoder": (False,),
    "is_decoder": (False, True),
    "add_cross_attention": (False,),
    "cross_attention_hidden_size": (),
    "tie_encoder_decoder": (False,),
    "pruned_heads": ({},),
    "bad_words_ids": (),
    "forced_bos_token_id": (),
    "forced_eos_token_id": (),
    "suppress_tokens": (),
    "begin_suppress_tokens": (),
    "remove_invalid_values": (False,),
    "lm_head_bias": (False,),
    "rope_interleaved": (False,),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """One architecture: our name of it, its defaults by field name, and the fields that are inert for it alone."""

    architecture: str
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int | None = None  # None: as many as query heads
    head_dim: int | None = None  # None: hidden_size / num_heads
    max_position: int
    norm_eps: float = 1e-6
    tied: bool = False
    theta: float = 10000.0
    inert: frozenset[str] = frozenset()
    required: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)


LLAMA = Family(
    architecture="llama",
    vocab_size=32000,
    hidden_size=4096,
    intermediate_size=11008,
    num_layers=32,
    num_heads=32,
    max_position=2048,
    inert=frozenset({"is_llama_config"}),
)
MISTRAL = Family(
    architecture="mistral",
    vocab_size=32000,
    hidden_size=4096,
    intermediate_size=14336,
    num_layers=32,
    num_heads=32,
    num_kv_heads=8,
    max_position=4096 * 32,
    required={"attention_bias": (False,), "mlp_bias": (False,)},
)
QWEN2 = Family(
    architecture="qwen2",
    vocab_size=151936,
    hidden_size=4096,
    intermediate_size=22016,
    num_layers=32,
    num_heads=32,
    num_kv_heads=32,
    max_position=32768,
)
QWEN3 = Family(
    architecture="qwen3",
    vocab_size=151936,
    hidden_size=4096,
    intermediate_size=22016,
    num_layers=32,
    num_heads=32,
    num_kv_heads=32,
    head_dim=128,
    max_position=32768,
)
GEMMA2 = Family(
    architecture="gemma2",
    vocab_size=256000,
    hidden_size=2304,
    intermediate_size=9216,
    num_layers=26,
    num_heads=8,
    num_kv_heads=4,
    head_dim=256,
    max_position=8192,
    tied=True,
    inert=frozenset({"hidden_act"}),  # Gemma computes with hidden_activation and always has
    required={"use_bidirectional_attention": (False,)},
)
GEMMA3 = Family(
    architecture="gemma3",
    vocab_size=262208,
    hidden_size=2304,
    intermediate_size=9216,
    num_layers=26,
    num_heads=8,
    num_kv_heads=4,
    head_dim=256,
    max_position=131072,
    tied=True,
    theta=1e6,
    inert=frozenset({"hidden_act"}),
    required={"use_bidirectional_attention": (False,)},
)
PHI3 = Family(
    architecture="phi3",
    vocab_size=32064,
    hidden_size=3072,
    intermediate_size=8192,
    num_layers=32,
    num_heads=32,
    max_position=4096,
    norm_eps=1e-5,
    required={"attention_bias": (False,), "mlp_bias": (False,), "full_attn_mod": (1,), "interpolate_factor": (1,)},
)
OLMO2 = Family(
    architecture="olmo2",
    vocab_size=50304,
    hidden_size=4096,
    intermediate_size=11008,
    num_layers=32,
    num_heads=32,
    max_position=2048,
    norm_eps=1e-5,
)
GRANITE = Family(
    architecture="granite",
    vocab_size=32000,
    hidden_size=4096,
    intermediate_size=11008,
    num_layers=32,
    num_heads=32,
    max_position=2048,
)
SMOLLM3 = Family(
    architecture="smollm3",
    vocab_size=128256,
    hidden_size=2048,
    intermediate_size=11008,
    num_layers=36,
    num_heads=16,
    num_kv_heads=4,
    max_position=32768,
    tied=True,
    theta=2e6,
    inert=frozenset({"max_window_layers"}),
)
GPT2 = Family(
    architecture="gpt2",
    vocab_size=50257,
    hidden_size=768,
    intermediate_size=0,  # n_inner, or 4 * n_embd
    num_layers=12,
    num_heads=12,
    max_position=1024,
    norm_eps=1e-5,
    tied=True,
    # reorder_and_upcast_attn only keeps float16 from overflowing; scores are computed in float32 here.
    inert=frozenset(
        {
            "n_ctx",
            "reorder_and_upcast_attn",
            "summary_type",
            "summary_use_proj",
            "summary_activation",
            "summary_proj_to_labels",
            "summary_first_dropout",
        }
    ),
    required={"scale_attn_by_inverse_layer_idx": (False,)},
)
# How the load of experts was balanced in training.
_BALANCE = frozenset({"output_router_logits", "router_aux_loss_coef", "router_jitter_noise"})
MIXTRAL = Family(
    architecture="mixtral",
    vocab_size=32000,
    hidden_size=4096,
    intermediate_size=14336,
    num_layers=32,
    num_heads=32,
    num_kv_heads=8,
    max_position=4096 * 32,
    norm_eps=1e-5,
    theta=1e6,
    inert=_BALANCE,
    required={"attention_bias": (False,), "mlp_bias": (False,)},
)
QWEN2_MOE = Family(
    architecture="qwen2_moe",
    vocab_size=151936,
    hidden_size=2048,
    intermediate_size=5632,
    num_layers=24,
    num_heads=16,
    num_kv_heads=16,
    max_position=32768,
    inert=_BALANCE,
)
QWEN3_MOE = Family(
    architecture="qwen3_moe",
    vocab_size=151936,
    hidden_size=2048,
    intermediate_size=6144,
    num_layers=24,
    num_heads=32,
    num_kv_heads=4,
    max_position=32768,
    inert=_BALANCE | {"max_window_layers"},
)
