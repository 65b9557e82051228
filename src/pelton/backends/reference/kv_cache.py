"""Keys and values of all layers in blocks: per layer two arrays [num_blocks, block_size, K, D] in one memory.

Where a smaller dtype is asked for, numbers are rounded to what it can hold when they are written, and kept as floats.

A token at position p of a request lives in slot p % block_size of block block_table[p // block_size]. Slots are read
only after they were written, so the memory need not be cleared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from pelton.backends.executable import Bytes
from pelton.backends.reference.array import Array, Int32
from pelton.errors import BackendError
from pelton.plan import Plan


@dataclass(frozen=True, slots=True)
class LayerShape:
    """Sizes of what one layer caches per token."""

    layer: int
    num_kv_heads: int
    key_dim: int
    value_dim: int


def cached_layers(plan: Plan) -> tuple[LayerShape, ...]:
    """The layers that `plan` caches, in plan order. Raises BackendError if two nodes write the same layer."""
    layers = []
    for node in plan.nodes:
        if node.op == "attention":
            _, k_TKD, v_TKD = node.inputs
            layer = node.attribute("layer")
            assert isinstance(layer, int), f"attention: layer {layer!r} is no number"
            layers.append(LayerShape(layer, int(k_TKD.shape[1]), int(k_TKD.shape[2]), int(v_TKD.shape[2])))
    if len({shape.layer for shape in layers}) != len(layers):
        raise BackendError("attention: two nodes of the plan write the cache of the same layer. Number each its own.")
    return tuple(layers)


def round_as_is(x_NKD: Array) -> Array:
    """The numbers themselves."""
    return x_NKD


def round_to_bfloat16(x_NKD: Array) -> Array:
    """To the nearest number of 8 significant bits, ties to even."""
    bits = np.ascontiguousarray(x_NKD, np.float32).view(np.uint32)
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) & np.uint32(0xFFFF0000)
    return np.where(np.isnan(x_NKD), np.float32(np.nan), rounded.view(np.float32)).astype(x_NKD.dtype)


def round_to_int8(x_NKD: Array) -> Array:
    """To scale * q, q in [-127, 127], scale = largest magnitude of the token's head / 127. Computed in float32."""
    x = x_NKD.astype(np.float32)
    magnitude_NK1 = np.abs(x).max(axis=-1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        inverse_NK1 = np.where(magnitude_NK1 > SMALLEST_MAGNITUDE, np.float32(127) / magnitude_NK1, np.float32(0))
        q = np.rint(x * inverse_NK1)
    scale_NK1 = np.where(np.isfinite(magnitude_NK1), magnitude_NK1 / np.float32(127), np.float32(np.nan))
    return (q * scale_NK1).astype(x_NKD.dtype)


SMALLEST_MAGNITUDE = np.float32(1e-30)  # below, a head counts as zeros: 127 / magnitude must be finite
ROUNDING: Mapping[str, Callable[[Array], Array]] = {
    "auto": round_as_is,
    "float32": round_as_is,
    "bfloat16": round_to_bfloat16,
    "int8": round_to_int8,
}


@dataclass(slots=True)
class KVCache:
    """The cache of one executable."""

    layers: tuple[LayerShape, ...]
    block_size: int
    dtype: np.dtype[np.floating]
    kv_dtype: str = "auto"
    key_balances: Mapping[int, Array] = field(default_factory=dict)  # by layer, for int8
    _arrays: dict[int, tuple[Array, Array]] = field(default_factory=dict)

    @property
    def bytes_per_block(self) -> int:
        """Bytes of one block over all layers."""
        values = sum(shape.num_kv_heads * (shape.key_dim + shape.value_dim) for shape in self.layers)
        return values * self.block_size * self.dtype.itemsize

    def bind(self, memory: Bytes, num_blocks: int) -> None:
        """Lay the arrays of all layers out in `memory`."""
        assert not self._arrays, "bind_kv: the cache has its memory already"
        need = num_blocks * self.bytes_per_block
        assert memory.nbytes >= need, f"bind_kv: {memory.nbytes} bytes given, {num_blocks} blocks need {need}"
        flat = memory[:need].view(self.dtype)
        start = 0
        for shape in self.layers:
            arrays = []
            for dim in (shape.key_dim, shape.value_dim):
                sizes = (num_blocks, self.block_size, shape.num_kv_heads, dim)
                arrays.append(flat[start : start + int(np.prod(sizes))].reshape(sizes))
                start += int(np.prod(sizes))
            self._arrays[shape.layer] = (arrays[0], arrays[1])

    def copy_block(self, source: int, target: int) -> None:
        """Copy a block's keys and values in all layers."""
        for arrays in self._arrays.values():
            for x_BPKD in arrays:
                x_BPKD[target] = x_BPKD[source]

    def write(self, layer: int, block_table_M: Int32, positions_N: Int32, k_NKD: Array, v_NKD: Array) -> None:
        """Put the keys and values of the tokens at `positions_N` into their slots."""
        k_BPKD, v_BPKD = self._arrays[layer]
        blocks_N, slots_N = block_table_M[positions_N // self.block_size], positions_N % self.block_size
        assert blocks_N.min() >= 0, f"attention: block table {block_table_M} has no block for a token of the step"
        rounded = ROUNDING[self.kv_dtype]
        balance_KD = self.key_balances.get(layer)
        if balance_KD is None:
            k_BPKD[blocks_N, slots_N] = rounded(k_NKD)
        else:
            k_BPKD[blocks_N, slots_N] = rounded(k_NKD * (1 / balance_KD)) * balance_KD
        v_BPKD[blocks_N, slots_N] = rounded(v_NKD)

    def read(self, layer: int, block_table_M: Int32, positions_C: Int32) -> tuple[Array, Array]:
        """Keys and values of the tokens at `positions_C`: [C, K, D] each."""
        k_BPKD, v_BPKD = self._arrays[layer]
        blocks_C, slots_C = block_table_M[positions_C // self.block_size], positions_C % self.block_size
        assert blocks_C.min() >= 0, f"attention: block table {block_table_M} lacks a block of the context"
        return k_BPKD[blocks_C, slots_C], v_BPKD[blocks_C, slots_C]
