"""The pieces of decoders with mixtures of experts in the place of all MLPs or of some, and the rows of their weights.

A router gives each token to a few experts of many, weighs what they make of it, and adds it up (Shazeer et al. 2017,
arXiv:1701.06538). One more expert may see all tokens, behind a sigmoid of its own. Stacks on `decoder`, for the rest.
Shapes: T tokens, E hidden size, X experts.
"""

from __future__ import annotations

from dataclasses import replace

from pelton.checkpoint.model_spec import LayerSpec, ModelSpec
from pelton.models.decoder import embed, gated_mlp, gated_mlp_rows, head, self_attention
from pelton.plan import Recorder, Row, Value, Weights, ops


def mixed_decoder(p: Recorder, spec: ModelSpec, w: Weights, max_model_len: int) -> Value:
    """The logits [S, V] of a pre-norm decoder some of whose layers have experts in the place of the MLP."""
    x_TE = embed(p, spec, w)
    for layer in range(spec.num_layers):
        lw, has_experts = w.layer(layer), spec.layers[layer].has_experts
        h_TE = ops.rms_norm(p, x_TE, lw["attn_norm"], spec.norm_eps)
        x_TE = ops.add(p, x_TE, self_attention(p, spec, lw, layer, h_TE, max_model_len))
        h_TE = ops.rms_norm(p, x_TE, lw["mlp_norm"], spec.norm_eps)
        y_TE = experts_mlp(p, spec, lw, h_TE) if has_experts else gated_mlp(p, spec, lw, h_TE)
        x_TE = ops.add(p, x_TE, y_TE)
    return head(p, spec, w, x_TE)


def experts_mlp(p: Recorder, spec: ModelSpec, w: Weights, h_TE: Value) -> Value:
    """The weighted sum of the outputs of each token's experts, and of the shared one if there is one: [T, E]."""
    experts = spec.experts
    assert experts is not None, f"{spec.architecture}: a layer has experts that the specification does not describe"
    logits = ops.linear(p, h_TE, w["router"])
    gate_T1 = None
    if experts.shared_intermediate_size:
        logits, gate_T1 = ops.split(p, logits, (experts.num_experts, 1))
    num_chosen = experts.num_experts_per_token
    weights_TX = ops.route(p, logits, num_chosen, normalised=experts.normalised)
    gate_up, down = w["experts_gate_up"], w["experts_down"]
    y_TE = ops.experts(p, h_TE, weights_TX, gate_up, down, num_chosen=num_chosen, kind=spec.activation)
    if gate_T1 is None:
        return y_TE
    shared = ops.gated(p, ops.linear(p, h_TE, w["shared_gate_up"]), spec.activation)
    return ops.add(p, y_TE, ops.sigmoid_scale(p, ops.linear(p, shared, w["shared_down"]), gate_T1))


def has_experts(layer: LayerSpec) -> bool:
    """The condition of the rows of experts; those of an MLP have the opposite."""
    return layer.has_experts


def expert_rows(
    mlp: str = "mlp", parts: tuple[str, str, str] = ("gate_proj", "up_proj", "down_proj")
) -> tuple[Row, ...]:
    """Rows of the router and of every expert. `mlp` and `parts` are their names in the family's Hugging Face files."""
    below = f"model.layers.{{i}}.{mlp}"
    rows = [Row(to="layers.{i}.router", hf=f"{below}.gate.weight", gguf="blk.{i}.ffn_gate_inp.weight")]
    for part, to, gguf in zip(parts, ("gate_up", "gate_up", "down"), ("gate", "up", "down"), strict=True):
        rows.append(
            Row(
                to=f"layers.{{i}}.experts_{to}",
                hf=f"{below}.experts.{{x}}.{part}.weight",
                gguf=f"blk.{{i}}.ffn_{gguf}_exps.weight",
                gguf_transform="experts",
                shard="rows",
            )
        )
    return tuple(replace(row, in_layer=has_experts) for row in rows)


def stacked_expert_rows() -> tuple[Row, ...]:
    """Alternatives: all experts in one tensor, as transformers 5 keeps them in memory and saves them if asked to."""
    below = "model.layers.{i}.mlp"
    return (
        Row(
            to="layers.{i}.experts_gate_up",
            hf=f"{below}.experts.gate_up_proj",
            gguf=None,
            transform="experts",
            shard="rows",
            in_layer=has_experts,
        ),
        Row(
            to="layers.{i}.experts_down",
            hf=f"{below}.experts.down_proj",
            gguf=None,
            transform="experts",
            shard="rows",
            in_layer=has_experts,
        ),
    )


def shared_expert_rows() -> tuple[Row, ...]:
    """Rows of the expert that all tokens share; its gate is the last row of the router."""
    below, rows = "model.layers.{i}.mlp.shared_expert", []
    for part, to in (("gate", "gate_up"), ("up", "gate_up"), ("down", "down")):
        rows.append(
            Row(
                to=f"layers.{{i}}.shared_{to}",
                hf=f"{below}.{part}_proj.weight",
                gguf=f"blk.{{i}}.ffn_{part}_shexp.weight",
                shard="columns" if part == "down" else "rows",
            )
        )
    gate = Row(
        to="layers.{i}.router",
        hf=f"{below}_gate.weight",
        gguf="blk.{i}.ffn_gate_inp_shexp.weight",
        gguf_transform="row",
    )
    return tuple(replace(row, in_layer=has_experts) for row in (*rows, gate))


def plain_mlp_rows() -> tuple[Row, ...]:
    """Rows of the MLP of layers without experts."""
    return tuple(replace(row, in_layer=lambda layer: not layer.has_experts) for row in gated_mlp_rows())
