"""One file per architecture: what is computed, and where its weights are. `find_model` is the table of all of them."""

from __future__ import annotations

import importlib
from typing import Protocol, cast

from pelton.checkpoint.model_spec import ModelSpec
from pelton.errors import CheckpointError, nearest
from pelton.plan import Recorder, Value, WeightMap, Weights

ARCHITECTURES = (
    "gemma2",
    "gemma3",
    "gpt2",
    "granite",
    "llama",
    "mistral",
    "mixtral",
    "olmo2",
    "phi3",
    "qwen2",
    "qwen2_moe",
    "qwen3",
    "qwen3_moe",
    "smollm3",
)


class Model(Protocol):
    """What a model file holds."""

    WEIGHTS: WeightMap

    @staticmethod
    def record(p: Recorder, spec: ModelSpec, w: Weights, max_model_len: int) -> Value:
        """Record one step; the result is the logits [S, V]."""
        ...


def find_model(architecture: str) -> Model:
    """The model file of `architecture`, a name of `ModelSpec.architecture`. Raises CheckpointError if there is none."""
    if architecture not in ARCHITECTURES:
        raise CheckpointError(
            f"architecture {architecture!r} has no model file in pelton.models. {nearest(architecture, ARCHITECTURES)}"
        )
    return cast(Model, importlib.import_module(f"pelton.models.{architecture}"))
