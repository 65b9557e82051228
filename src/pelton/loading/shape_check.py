"""Whether the weights of a decoder have the sizes that its specification says; asked before anything is recorded.

Goes by plan names, which all model files share. A name that is not in the table is checked by the ops that read it.
"""

from __future__ import annotations

from collections.abc import Mapping

from pelton.checkpoint.model_spec import Experts, ModelSpec
from pelton.checkpoint.weight import Weight
from pelton.errors import CheckpointError


def expected_shapes(spec: ModelSpec) -> dict[str, tuple[tuple[int, ...], str]]:
    """By the last part of a plan name: the shape, and the fields of the specification it comes from."""
    hidden, inner, vocabulary = spec.hidden_size, spec.intermediate_size, spec.vocab_size
    qkv = spec.q_size + 2 * spec.kv_size
    heads = f"num_heads={spec.num_heads}, num_kv_heads={spec.num_kv_heads}, head_dim={spec.head_dim}"
    sizes = f"hidden_size={hidden}, intermediate_size={inner}"
    norms = ("norm", "attn_norm", "mlp_norm", "post_attn_norm", "post_mlp_norm")
    table: dict[str, tuple[tuple[int, ...], str]] = {
        "embed": ((vocabulary, hidden), f"vocab_size={vocabulary}, hidden_size={hidden}"),
        "lm_head": ((vocabulary, hidden), f"vocab_size={vocabulary}, hidden_size={hidden}"),
        "positions": ((spec.learned_positions, hidden), f"learned_positions={spec.learned_positions}"),
        **{name + suffix: ((hidden,), f"hidden_size={hidden}") for name in norms for suffix in ("", "_bias")},
        "qkv": ((qkv, hidden), f"hidden_size={hidden}, {heads}"),
        "qkv_bias": ((qkv,), heads),
        "out": ((hidden, spec.q_size), f"hidden_size={hidden}, {heads}"),
        "out_bias": ((hidden,), f"hidden_size={hidden}"),
        "gate_up": ((2 * inner, hidden), sizes),
        "gate_up_bias": ((2 * inner,), sizes),
        "up": ((inner, hidden), sizes),
        "up_bias": ((inner,), sizes),
        "down": ((hidden, inner), sizes),
        "down_bias": ((hidden,), sizes),
    }
    if spec.experts is not None:
        table |= expert_shapes(hidden, spec.experts)
    if spec.qk_norm == "head":
        table |= dict.fromkeys(("q_norm", "k_norm"), ((spec.head_dim,), f"head_dim={spec.head_dim}"))
    elif spec.qk_norm == "full":
        table |= {"q_norm": ((spec.q_size,), heads), "k_norm": ((spec.kv_size,), heads)}
    return table


def expert_shapes(hidden: int, experts: Experts) -> dict[str, tuple[tuple[int, ...], str]]:
    """The weights of a mixture of experts. The router's last row is the gate of the shared expert, if there is one."""
    number, inner, shared = experts.num_experts, experts.intermediate_size, experts.shared_intermediate_size
    sizes = f"hidden_size={hidden}, num_experts={number}, expert intermediate_size={inner}"
    table: dict[str, tuple[tuple[int, ...], str]] = {
        "router": ((number + (shared > 0), hidden), sizes),
        "experts_gate_up": ((number * 2 * inner, hidden), sizes),
        "experts_down": ((number * hidden, inner), sizes),
        "shared_gate_up": ((2 * shared, hidden), f"hidden_size={hidden}, shared_intermediate_size={shared}"),
        "shared_down": ((hidden, shared), f"hidden_size={hidden}, shared_intermediate_size={shared}"),
    }
    return table


def expected_parts(name: str, spec: ModelSpec, num_parts: int) -> tuple[int, ...]:
    """Rows of the tensors that a stacked weight is made of, where a checkpoint stores them apart."""
    experts = spec.experts
    if experts is not None:
        rows = {
            "router": (experts.num_experts, 1),
            "experts_gate_up": (2 * experts.num_experts * experts.intermediate_size // num_parts,) * num_parts,
            "experts_down": (spec.hidden_size,) * num_parts,
            "shared_gate_up": (experts.shared_intermediate_size,) * 2,
        }
        if name in rows:
            return rows[name]
    if name in ("qkv", "qkv_bias"):
        return spec.qkv_sizes
    if name in ("gate_up", "gate_up_bias"):
        return spec.intermediate_size, spec.intermediate_size
    return ()


def check_shapes(weights: Mapping[str, Weight], spec: ModelSpec) -> None:
    """Raise CheckpointError, naming tensors, shapes and fields, at the first weight of a wrong size."""
    table = expected_shapes(spec)
    for name, weight in weights.items():
        short = name.rpartition(".")[2]
        expected, fields = table.get(short, (weight.shape, ""))
        rows = tuple(part.shape[0] for part in weight.parts)
        expected_rows = expected_parts(short, spec, len(rows)) if len(rows) > 1 else rows
        if weight.shape != expected or rows != expected_rows:
            tensors = " + ".join(f"{part.name} {list(part.shape)}" for part in weight.parts)
            pieces = f" in parts of {' + '.join(map(str, expected_rows))} rows" if len(rows) > 1 else ""
            raise CheckpointError(
                f"{tensors}: {name!r} has shape {list(weight.shape)}, this model expects {list(expected)}{pieces} "
                f"({fields}). The configuration and the weights belong to different models."
            )
