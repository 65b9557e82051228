"""What configuration needs to know of a model: sizes, no meaning."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFacts:
    """Filled by `api` from a ModelSpec and the checkpoint's tensors, before anything is loaded."""

    name: str  # the architecture
    max_position: int  # tokens the model was made for
    vocab_size: int
    hidden_size: int
    num_layers: int
    weight_bytes: int  # memory that the loaded weights take
    weight_dtype: str  # as the checkpoint says; mixed ones name the most common
    kv_bytes_per_token: int  # over all layers
