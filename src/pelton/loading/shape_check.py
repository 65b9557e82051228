"""Whether the weights of a decoder have the sizes that its specification says; asked before anything is recorded.

Goes by plan names, which all model files share. A name that is not in the table is checked by the ops that read it.
"""

from __future__ import annotations

from collections.abc import Mapping

from pelton.checkpoint.model_spec import ModelSpec
from pelton.checkpoint.weight import Weight
from pelton.errors import CheckpointError


def expected_shapes(spec: ModelSpec) -> dict[str, tuple[tuple[int, ...], str]]:
    """By the last part of a plan name: the shape, and the fields of the specification it comes from."""
    hidden, inner, vocabulary = spec.hidden_size, spec.intermediate_size, spec.vocab_size
    qkv = spec.q_size + 2 * spec.kv_size
    heads = f"num_heads={spec.num_heads}, num_kv_heads={spec.num_kv_heads}, head_dim={spec.head_dim}"
    sizes = f"hidden_size={hidden}, intermediate_size={inner}"
    table = {
        "embed": ((vocabulary, hidden), f"vocab_size={vocabulary}, hidden_size={hidden}"),
        "lm_head": ((vocabulary, hidden), f"vocab_size={vocabulary}, hidden_size={hidden}"),
        "positions": ((spec.learned_positions, hidden), f"learned_positions={spec.learned_positions}"),
        "norm": ((hidden,), f"hidden_size={hidden}"),
        "attn_norm": ((hidden,), f"hidden_size={hidden}"),
        "mlp_norm": ((hidden,), f"hidden_size={hidden}"),
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
    if spec.qk_norm == "head":
        table |= dict.fromkeys(("q_norm", "k_norm"), ((spec.head_dim,), f"head_dim={spec.head_dim}"))
    elif spec.qk_norm == "full":
        table |= {"q_norm": ((spec.q_size,), heads), "k_norm": ((spec.kv_size,), heads)}
    return table


def check_shapes(weights: Mapping[str, Weight], spec: ModelSpec) -> None:
    """Raise CheckpointError, naming tensor, shapes and fields, at the first weight of a wrong size."""
    table = expected_shapes(spec)
    for name, weight in weights.items():
        expected, fields = table.get(name.rpartition(".")[2], (weight.shape, ""))
        if weight.shape != expected:
            tensors = " + ".join(f"{part.name} {list(part.shape)}" for part in weight.parts)
            raise CheckpointError(
                f"{tensors}: {name!r} has shape {list(weight.shape)}, this model expects {list(expected)} "
                f"({fields}). The configuration and the weights belong to different models."
            )
