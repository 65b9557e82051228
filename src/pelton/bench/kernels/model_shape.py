"""The sizes of real models that kernels are measured at: matrices as they are fused, heads, vocabulary."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelShape:
    """One model's sizes."""

    hidden_size: int
    intermediate_size: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    vocab_size: int

    @property
    def matrices(self) -> Mapping[str, tuple[int, int]]:
        """(N, K) of every matrix of a layer, and of the head."""
        heads = self.num_heads * self.head_dim
        return {
            "qkv": (heads + 2 * self.num_kv_heads * self.head_dim, self.hidden_size),
            "o": (self.hidden_size, heads),
            "gate_up": (2 * self.intermediate_size, self.hidden_size),
            "down": (self.hidden_size, self.intermediate_size),
            "head": (self.vocab_size, self.hidden_size),
        }


MODEL_SHAPES: Mapping[str, ModelShape] = {
    "qwen2.5-0.5b": ModelShape(
        hidden_size=896, intermediate_size=4864, num_heads=14, num_kv_heads=2, head_dim=64, vocab_size=151936
    ),
    "qwen2.5-1.5b": ModelShape(
        hidden_size=1536, intermediate_size=8960, num_heads=12, num_kv_heads=2, head_dim=128, vocab_size=151936
    ),
    "gemma-3-270m": ModelShape(
        hidden_size=640, intermediate_size=2048, num_heads=4, num_kv_heads=1, head_dim=256, vocab_size=262144
    ),
}
