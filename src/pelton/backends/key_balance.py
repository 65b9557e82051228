"""How large each dimension of keys is expected to be, so that an 8-bit cache serves large and small ones alike.

A key is divided by its balance before it is rounded, and the query multiplied by it: q.k is the same. Without it the
one scale of a token and head is spent on the few dimensions that a bias or a norm's weight makes large: on Qwen2.5-0.5B
the rounding of keys costs a mean KL of 9e-3, with it 4e-4. The balance is the square root of the expected magnitude,
half way between keys and queries (Xiao et al. 2022, arXiv:2211.10438), the same for dimensions that rotary turns into
each other. It follows from the weights alone. Runs once, at load, for int8 caches.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from pelton.checkpoint.dequantize import dequantize
from pelton.checkpoint.weight import Weight
from pelton.plan import Node, Plan, Value, WeightRef

Float32 = npt.NDArray[np.float32]
Float64 = npt.NDArray[np.float64]
GetWeight = Callable[[WeightRef], Weight]

LARGEST_BALANCE = 16.0  # and the smallest is its inverse


def compute_key_balance(plan: Plan, attention: Node, get_weight: GetWeight) -> Float32 | None:
    """The balance of every dimension of the keys of `attention`, [K, D]; None if the plan does not tell."""
    keys = attention.inputs[1]
    num_kv_heads, head_dim = int(keys.shape[1]), int(keys.shape[2])
    tracing = _Tracing(plan, get_weight)
    magnitude = tracing.find(keys, 0, num_kv_heads * head_dim)
    if magnitude is None:
        return None
    power_KD = np.square(magnitude).reshape(num_kv_heads, head_dim)
    for half in tracing.halves:
        first, second = power_KD[:, :half], power_KD[:, half : 2 * half]
        first[:] = second[:] = (first + second) / 2
    logs_KD = np.log(np.maximum(power_KD, 1e-30))
    centred_KD = logs_KD - logs_KD.mean(axis=1, keepdims=True)
    balance_KD: Float32 = np.exp(centred_KD / 4).clip(1 / LARGEST_BALANCE, LARGEST_BALANCE).astype(np.float32)
    return balance_KD


class _Tracing:
    """Follows a value back to the weights that say how large it is."""

    def __init__(self, plan: Plan, get_weight: GetWeight) -> None:
        self.halves: list[int] = []  # of the rotary ops on the way
        self._get_weight = get_weight
        self._makers = {value.id: node for node in plan.nodes for value in node.outputs}

    def find(self, value: Value, first: int, width: int) -> Float64 | None:
        """Root mean squares of numbers [first, first + width) of each row; None where nothing is known."""
        node = self._makers.get(value.id)
        if node is None:
            return None
        if node.op == "rotary":
            inv_freq: Any = node.attribute("inv_freq")
            self.halves.append(len(inv_freq))
        if node.op in ("rotary", "heads"):
            return self.find(node.inputs[0], first, width)
        if node.op == "split":
            for piece in node.outputs:
                if piece == value:
                    return self.find(node.inputs[0], first, width)
                first += int(piece.shape[-1])
        if node.op == "rms_norm":
            (ref,) = node.weights
            size = int(value.shape[-1])
            weight = np.ones(size) if ref is None else np.abs(self._dense(ref, 0, size))
            return weight[np.arange(first, first + width) % size]
        return self._find_linear(node, first, width) if node.op == "linear" else None

    def _find_linear(self, node: Node, first: int, width: int) -> Float64:
        """Of a product with rows whose numbers are independent."""
        x_value, (weight, bias) = node.inputs[0], node.weights
        assert weight is not None, "linear: weight 0 is required"
        size = int(x_value.shape[-1])
        x = self.find(x_value, 0, size)
        product = self._dense(weight, first, width) * (1.0 if x is None else x)
        offset = 0.0 if bias is None else self._dense(bias, first, width)
        magnitude: Float64 = np.sqrt(np.square(product).sum(axis=1) + np.square(offset))
        return magnitude

    def _dense(self, ref: WeightRef, first: int, width: int) -> Float64:
        """Rows [first, first + width) of a weight, or so many numbers of a vector."""
        pieces, start = [], 0
        for part in self._get_weight(ref).parts:
            begin, end = max(first - start, 0), min(first + width - start, part.shape[0])
            if begin < end and len(part.shape) == 1:
                pieces.append(dequantize(part)[begin:end])
            elif begin < end:
                pieces.append(dequantize(part.rows(begin, end, "keys")))
            start += part.shape[0]
        return np.concatenate(pieces).astype(np.float64)
