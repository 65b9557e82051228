"""Attention as two native ops: keys and values of the step go to the cache, then queries read it.

The first gives each thread the rows that rotary gave it, so no barrier is between those. The cache of a layer is a part
of every block, at the offset that the caller counts. Runs once, at load.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pelton.backends.cpu import _native
from pelton.backends.cpu.buffer_plan import Buffer, NativeOp, View
from pelton.backends.cpu.weights import WeightStore
from pelton.backends.executable import Limits
from pelton.backends.key_balance import compute_key_balance
from pelton.errors import BackendError, nearest
from pelton.plan import Node, Plan

KV_DTYPES = {dtype.name: dtype for dtype in _native.KvDtype}


@dataclass(frozen=True, slots=True, kw_only=True)
class LoweredAttention:
    """The native ops of an attention, and what it takes besides."""

    ops: tuple[NativeOp, ...]
    kv_dtype: str
    layer_bytes: int  # of each block of the cache
    scratch_bytes: int  # of each thread


def choose_kv_dtype(limits: Limits) -> str:
    """How keys and values are stored. Raises BackendError for a dtype without kernels."""
    if limits.kv_dtype == "auto":
        return "float32" if limits.exact else "bfloat16"
    if limits.kv_dtype not in KV_DTYPES:
        raise BackendError(
            f"cpu: keys and values cannot be stored as {limits.kv_dtype!r}. {nearest(limits.kv_dtype, KV_DTYPES)}"
        )
    return limits.kv_dtype


def lower_attention(
    plan: Plan,
    node: Node,
    views: tuple[View, View, View, View],
    *,
    store: WeightStore,
    limits: Limits,
    layer_offset_bytes: int,
) -> LoweredAttention:
    """The ops of `node`, whose operands and result are the views."""
    q, k, v, y = views
    kv_dtype = choose_kv_dtype(limits)
    balance_KD = compute_key_balance(plan, node, store.get) if kv_dtype == "int8" else None
    q_value, k_value, v_value = node.inputs
    num_heads, (num_kv_heads, k_dim), v_dim = int(q_value.shape[1]), map(int, k_value.shape[1:]), int(v_value.shape[2])
    window, softcap, scale = (node.attribute(name) for name in ("window", "softcap", "scale"))
    (sinks,) = node.weights
    layout = _native.KvLayout(limits.block_size, num_kv_heads, k_dim, v_dim, KV_DTYPES[kv_dtype], layer_offset_bytes)
    max_context = limits.block_size * limits.max_blocks_per_request
    partials = Buffer(_native.attention_partial_bytes(v_dim, max_context, limits.num_threads))
    prefixes = Buffer(_native.attention_prefix_bytes(num_heads, v_dim, limits.max_num_requests))

    def write(p: Any, at: Any, _: Any) -> None:
        inverse = None if balance_KD is None else p.add_vector((1 / balance_KD).ravel())
        p.add_kv_write(layout, at(k), at(v), k_dim, v_dim, inverse)

    def attend(p: Any, at: Any, at_buffer: Any) -> None:
        memory = (at_buffer(partials), at_buffer(prefixes), max_context)
        sizes = (num_heads, k_dim, v_dim)
        balance = None if balance_KD is None else p.add_vector(balance_KD.ravel())
        settings = (scale, window, softcap or 0.0, store.vector(p, sinks), balance)
        p.add_attention(layout, at(q), at(y), *memory, *sizes, *settings)

    return LoweredAttention(
        ops=(
            NativeOp("T", "T", (k.buffer, v.buffer), write, "kv_write"),
            NativeOp("any", "any", (q.buffer, y.buffer, partials, prefixes), attend),
        ),
        kv_dtype=kv_dtype,
        layer_bytes=layout.layer_bytes,
        scratch_bytes=_native.attention_scratch_bytes(k_dim, v_dim),
    )
