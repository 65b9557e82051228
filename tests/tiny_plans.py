"""Small models recorded by hand, with random weights: together they use every op of the vocabulary."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from tests.steps import dense_weight

from pelton.checkpoint.weight import Weight
from pelton.plan import Plan, Recorder, Value, Weights, ops

VOCAB, HIDDEN, FEED_FORWARD, HEADS, KV_HEADS, HEAD_DIM, LAYERS = 37, 24, 40, 6, 2, 6, 2
EXPERTS, EXPERT_SIZE = 5, 20
INV_FREQ = (1.0, 0.1)  # four of six dimensions turn

Float32 = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class TinyPlan:
    """A plan and weights that fit it."""

    plan: Plan
    arrays: Mapping[str, Float32]

    @property
    def weights(self) -> dict[str, Weight]:
        return {name: dense_weight(name, array) for name, array in self.arrays.items()}


def llama_like(p: Recorder, w: Weights) -> Value:
    """Pre-norm, rotary, gated."""
    x = ops.embedding(p, p.token_ids, w["embed"])
    for layer in range(LAYERS):
        lw = w.layer(layer)
        h = ops.rms_norm(p, x, lw["attn_norm"], 1e-5)
        q, k, v = ops.split(
            p, ops.linear(p, h, lw["qkv"]), (HEADS * HEAD_DIM, KV_HEADS * HEAD_DIM, KV_HEADS * HEAD_DIM)
        )
        q_THD = ops.rotary(p, ops.heads(p, q, HEADS), INV_FREQ)
        k_TKD = ops.rotary(p, ops.heads(p, k, KV_HEADS), INV_FREQ)
        y = ops.attention(p, q_THD, k_TKD, ops.heads(p, v, KV_HEADS), layer, scale=HEAD_DIM**-0.5)
        x = ops.add(p, x, ops.linear(p, y, lw["o"]))
        h = ops.rms_norm(p, x, lw["mlp_norm"], 1e-5)
        x = ops.add(p, x, ops.linear(p, ops.gated(p, ops.linear(p, h, lw["gate_up"]), "silu"), lw["down"]))
    return ops.linear(p, ops.select_rows(p, ops.rms_norm(p, x, w["norm"], 1e-5)), w["embed"])


def gemma_like(p: Recorder, w: Weights) -> Value:
    """Norms around both parts, head norms, windows, soft-caps, a scaled embedding, the residual as second operand."""
    x = ops.scale(p, ops.embedding(p, p.token_ids, w["embed"]), 4.9)
    for layer in range(LAYERS):
        lw = w.layer(layer)
        h = ops.rms_norm(p, x, lw["attn_norm"], 1e-6)
        q, k, v = ops.split(
            p, ops.linear(p, h, lw["qkv"]), (HEADS * HEAD_DIM, KV_HEADS * HEAD_DIM, KV_HEADS * HEAD_DIM)
        )
        q_THD = ops.rotary(p, ops.rms_norm(p, ops.heads(p, q, HEADS), lw["q_norm"], 1e-6), INV_FREQ, 1.2)
        k_TKD = ops.rotary(p, ops.rms_norm(p, ops.heads(p, k, KV_HEADS), None, 1e-6), INV_FREQ, 1.2)
        window = 3 if layer % 2 == 0 else None
        y = ops.attention(p, q_THD, k_TKD, ops.heads(p, v, KV_HEADS), layer, scale=0.3, window=window, softcap=5.0)
        x = ops.add(p, ops.rms_norm(p, ops.linear(p, y, lw["o"]), lw["attn_norm"], 1e-6), x)
        h = ops.rms_norm(p, x, lw["mlp_norm"], 1e-6)
        h = ops.linear(p, ops.gated(p, ops.linear(p, h, lw["gate_up"]), "gelu_tanh"), lw["down"])
        x = ops.add(p, h, x)
    return ops.softcap(p, ops.linear(p, ops.select_rows(p, ops.rms_norm(p, x, w["norm"], 1e-6)), w["lm_head"]), 30.0)


def gpt2_like(p: Recorder, w: Weights) -> Value:
    """Learned positions, layer norms with biases, an MLP without gate."""
    x = ops.add(p, ops.embedding(p, p.token_ids, w["embed"]), ops.embedding(p, p.positions, w["position_embed"]))
    for layer in range(LAYERS):
        lw = w.layer(layer)
        h = ops.layer_norm(p, x, lw["attn_norm"], lw["attn_norm_bias"], 1e-5)
        sizes = (HEADS * HEAD_DIM, KV_HEADS * HEAD_DIM, KV_HEADS * HEAD_DIM)
        q, k, v = ops.split(p, ops.linear(p, h, lw["qkv"], lw["qkv_bias"]), sizes)
        k_TKD, v_TKD = ops.heads(p, k, KV_HEADS), ops.heads(p, v, KV_HEADS)
        y = ops.attention(p, ops.heads(p, q, HEADS), k_TKD, v_TKD, layer, scale=HEAD_DIM**-0.5)
        x = ops.add(p, x, ops.linear(p, y, lw["o"], lw["o_bias"]))
        h = ops.layer_norm(p, x, lw["mlp_norm"], None, 1e-5)
        h = ops.activation(p, ops.linear(p, h, lw["up"], lw["up_bias"]), "gelu")
        x = ops.add(p, x, ops.linear(p, h, lw["down"], lw["down_bias"]))
    return ops.linear(p, ops.select_rows(p, ops.layer_norm(p, x, w["norm"], w["norm_bias"], 1e-5)), w["lm_head"])


def moe_like(p: Recorder, w: Weights) -> Value:
    """Mixtures of experts, and beside each an expert that all tokens share, behind a sigmoid; then attention.

    The experts come first: where two are nearly equal, a rounded attention before them would choose another.
    """
    x = ops.embedding(p, p.token_ids, w["embed"])
    for layer in range(LAYERS):
        lw = w.layer(layer)
        h = ops.rms_norm(p, x, lw["mlp_norm"], 1e-5)
        logits, gate = ops.split(p, ops.linear(p, h, lw["router"]), (EXPERTS, 1))
        weights = ops.route(p, logits, 2, normalised=layer % 2 == 0)
        y = ops.experts(p, h, weights, lw["experts_gate_up"], lw["experts_down"], num_chosen=2, kind="silu")
        shared = ops.linear(p, ops.gated(p, ops.linear(p, h, lw["gate_up"]), "silu"), lw["down"])
        x = ops.add(p, x, ops.add(p, y, ops.sigmoid_scale(p, shared, gate)))
    for layer in range(LAYERS):
        lw = w.layer(layer)
        h = ops.rms_norm(p, x, lw["attn_norm"], 1e-5)
        sizes = (HEADS * HEAD_DIM, KV_HEADS * HEAD_DIM, KV_HEADS * HEAD_DIM)
        q, k, v = ops.split(p, ops.linear(p, h, lw["qkv"]), sizes)
        q_THD, k_TKD = ops.rotary(p, ops.heads(p, q, HEADS), INV_FREQ), ops.heads(p, k, KV_HEADS)
        y = ops.attention(p, q_THD, k_TKD, ops.heads(p, v, KV_HEADS), layer, scale=HEAD_DIM**-0.5)
        x = ops.add(p, x, ops.linear(p, y, lw["o"]))
    return ops.linear(p, ops.select_rows(p, ops.rms_norm(p, x, w["norm"], 1e-5)), w["lm_head"])


QKV = (HEADS + 2 * KV_HEADS) * HEAD_DIM
SHAPES = {
    "embed": (VOCAB, HIDDEN),
    "lm_head": (VOCAB, HIDDEN),
    "position_embed": (128, HIDDEN),
    "norm": (HIDDEN,),
    "norm_bias": (HIDDEN,),
}
LAYER_SHAPES = {
    "attn_norm": (HIDDEN,),
    "attn_norm_bias": (HIDDEN,),
    "mlp_norm": (HIDDEN,),
    "q_norm": (HEAD_DIM,),
    "qkv": (QKV, HIDDEN),
    "qkv_bias": (QKV,),
    "o": (HIDDEN, HEADS * HEAD_DIM),
    "o_bias": (HIDDEN,),
    "gate_up": (2 * FEED_FORWARD, HIDDEN),
    "up": (FEED_FORWARD, HIDDEN),
    "up_bias": (FEED_FORWARD,),
    "down": (HIDDEN, FEED_FORWARD),
    "down_bias": (HIDDEN,),
    "router": (EXPERTS + 1, HIDDEN),
    "experts_gate_up": (EXPERTS * 2 * EXPERT_SIZE, HIDDEN),
    "experts_down": (EXPERTS * HIDDEN, EXPERT_SIZE),
}

MODELS: Mapping[str, Callable[[Recorder, Weights], Value]] = {
    "llama_like": llama_like,
    "gemma_like": gemma_like,
    "gpt2_like": gpt2_like,
    "moe_like": moe_like,
}


def all_shapes() -> dict[str, tuple[int, ...]]:
    """Shapes of every weight that any of the models reads."""
    shapes: dict[str, tuple[int, ...]] = dict(SHAPES)
    for layer in range(LAYERS):
        shapes |= {f"layers.{layer}.{name}": shape for name, shape in LAYER_SHAPES.items()}
    return shapes


def random_arrays(shapes: Mapping[str, tuple[int, ...]], seed: int = 0) -> dict[str, Float32]:
    """Matrices of standard deviation 0.3, vectors around one."""
    rng = np.random.default_rng(seed)
    return {
        name: rng.normal(1.0 if len(shape) == 1 else 0.0, 0.3, shape).astype(np.float32)
        for name, shape in shapes.items()
    }


def tiny_plan(name: str, seed: int = 0) -> TinyPlan:
    """The model called `name`."""
    shapes = all_shapes()
    recorder = Recorder()
    plan = recorder.plan(MODELS[name](recorder, Weights(shapes)))
    return TinyPlan(plan, random_arrays({name: shapes[name] for name in plan.weights()}, seed))
