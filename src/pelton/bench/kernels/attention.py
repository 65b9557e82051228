"""Attention over the paged cache: one token of each request (decode), or a chunk of one request (prefill)."""

from __future__ import annotations

from pelton.bench.kernels.model_shape import ModelShape
from pelton.bench.kernels.program import BLOCK_SIZE, Canvas, KernelProgram, KernelStep, make_limits
from pelton.plan import ops

CACHE_MULTIPLE = 3
KV_VALUE_BYTES = 2
MAX_COPIES = 64
PREFILL_CHUNK = 128


def make_attention(
    label: str, shape: ModelShape, step: KernelStep, *, num_threads: int, cache_bytes: int
) -> KernelProgram:
    """Layers that attend, for `step`. `label` is attention, or kv_write for what goes to the cache before it."""
    heads, kv_heads, dim = shape.num_heads, shape.num_kv_heads, shape.head_dim
    contexts = [computed + new for computed, new in step.requests]
    num_tokens = sum(new for _, new in step.requests)
    num_blocks = sum(-(-context // BLOCK_SIZE) for context in contexts)
    layer_bytes = num_blocks * BLOCK_SIZE * 2 * kv_heads * dim * KV_VALUE_BYTES
    copies = min(MAX_COPIES, -(-CACHE_MULTIPLE * cache_bytes // layer_bytes))
    canvas = Canvas((heads + 2 * kv_heads) * dim)
    q, k, v = ops.split(canvas.recorder, canvas.x, (heads * dim, kv_heads * dim, kv_heads * dim))
    q_THD, k_TKD, v_TKD = (
        ops.heads(canvas.recorder, value, count) for value, count in ((q, heads), (k, kv_heads), (v, kv_heads))
    )
    for layer in range(copies):
        ops.attention(canvas.recorder, q_THD, k_TKD, v_TKD, layer, scale=dim**-0.5)
    node = canvas.recorder.nodes[-1] if label == "attention" else None
    return KernelProgram(
        op=label,
        label=label,
        facts={"heads": heads, "kv_heads": kv_heads, "head_dim": dim},
        plan=canvas.finish(),
        node=node,
        weights=canvas.weights,
        copies=copies,
        arithmetic="bfloat16",
        streams=copies * layer_bytes > cache_bytes,
        limits=make_limits(
            num_threads,
            max_tokens=num_tokens,
            max_requests=len(contexts),
            max_rows=len(contexts),
            max_context=max(contexts),
        ),
        num_blocks=num_blocks,
        kv_value_bytes=KV_VALUE_BYTES,
    )


def make_decode_step(num_requests: int, context: int) -> KernelStep:
    """The next token of each of so many requests with `context` tokens, that one included."""
    facts = {"phase": "decode", "rows": num_requests, "context": context}
    return KernelStep(facts=facts, requests=((context - 1, 1),) * num_requests)


def make_prefill_step(context: int) -> KernelStep:
    """The last tokens of a prompt of `context`."""
    rows = min(PREFILL_CHUNK, context)
    facts = {"phase": "prefill", "rows": rows, "context": context}
    return KernelStep(facts=facts, requests=((context - rows, rows),))
