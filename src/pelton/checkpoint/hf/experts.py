"""The fields of config.json that describe a mixture of experts, and which layers have one."""

from __future__ import annotations

from dataclasses import replace

from pelton.checkpoint.fields import Fields
from pelton.checkpoint.model_spec import Experts, LayerSpec


def read_mixtral_experts(fields: Fields, intermediate_size: int) -> Experts:
    """Mixtral's: experts of the size that the MLP would have, with normalised weights."""
    return Experts(
        num_experts=read_num_experts(fields, 8),
        num_experts_per_token=fields.integer("num_experts_per_tok", 2),
        intermediate_size=intermediate_size,
        normalised=True,
    )


def read_qwen_experts(fields: Fields, defaults: Experts) -> Experts:
    """Those of Qwen2-MoE and Qwen3-MoE, of which the first have a shared expert."""
    shared_size = defaults.shared_intermediate_size
    return Experts(
        num_experts=read_num_experts(fields, defaults.num_experts),
        num_experts_per_token=fields.integer("num_experts_per_tok", defaults.num_experts_per_token),
        intermediate_size=fields.integer("moe_intermediate_size", defaults.intermediate_size),
        normalised=fields.flag("norm_topk_prob", defaults.normalised),
        shared_intermediate_size=fields.integer("shared_expert_intermediate_size", shared_size) if shared_size else 0,
    )


def read_num_experts(fields: Fields, default: int) -> int:
    """The number of experts, which transformers writes under either of two names."""
    local = fields.integer("num_local_experts", default)
    number = fields.integer("num_experts", local)
    if fields.has("num_local_experts") and number != local:
        raise fields.error(f"num_experts is {number} and num_local_experts {local}; they must agree.")
    return number


def with_experts(fields: Fields, layers: tuple[LayerSpec, ...]) -> tuple[LayerSpec, ...]:
    """`layers`, told which have experts: every `decoder_sparse_step`-th, but none of `mlp_only_layers`."""
    step = fields.integer("decoder_sparse_step", 1)
    plain = fields.numbers("mlp_only_layers") or ()
    if not set(plain) <= set(range(len(layers))):
        raise fields.error(f"mlp_only_layers names layers that are not among the {len(layers)} of the model.")
    return tuple(
        replace(layer, has_experts=(index + 1) % step == 0 and index not in plain) for index, layer in enumerate(layers)
    )
