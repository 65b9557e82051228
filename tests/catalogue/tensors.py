"""The tensors of a small model of any family, by the family's own weight map: what a checkpoint of it would hold."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from tests.loading.memory_checkpoint import MemoryCheckpoint

from pelton.checkpoint.contract import Naming
from pelton.checkpoint.dequantize import dequantize
from pelton.checkpoint.model_spec import ModelSpec
from pelton.loading.shape_check import expected_parts, expected_shapes
from pelton.loading.weights import all_places, load_weights
from pelton.models import find_model

Floats = npt.NDArray[np.float32]


def make_tensors(spec: ModelSpec, naming: Naming = "hf", seed: int = 0) -> dict[str, Floats]:
    """Every tensor that the model needs, with random numbers, in the shape that its file has it in."""
    rng = np.random.default_rng(seed)
    places = all_places(find_model(spec.architecture).WEIGHTS, naming, spec, ())
    wanted = [place for place in places.values() if place.is_wanted(spec)]
    by_weight: dict[str, list[str]] = {}
    for place in wanted:
        by_weight.setdefault(place.to, []).append(place.tensor)
    tensors: dict[str, Floats] = {}
    for place in wanted:
        short = place.to.rpartition(".")[2]
        shape, _ = expected_shapes(spec)[short]
        parts = by_weight[place.to]
        if place.transform == "experts":
            assert spec.experts is not None, "only a model with experts stacks them"
            shape = (spec.experts.num_experts, shape[0] // spec.experts.num_experts // len(parts), *shape[1:])
        elif len(parts) > 1:
            shape = (expected_parts(short, spec, len(parts))[parts.index(place.tensor)], *shape[1:])
        if place.transform == "transpose":
            shape = shape[::-1]
        if place.transform == "row":
            shape = shape[1:]
        tensors[place.tensor] = rng.normal(scale=0.2, size=shape).astype(np.float32)
    return tensors


def load(spec: ModelSpec, tensors: dict[str, Floats], naming: Naming = "hf") -> dict[str, Floats]:
    """The numbers of every plan weight. Raises what loading raises."""
    checkpoint = MemoryCheckpoint(tensors, spec, naming)
    loaded = load_weights(checkpoint, find_model(spec.architecture).WEIGHTS, spec)
    return {
        name: np.concatenate([dequantize(part) for part in weight.parts]) for name, weight in loaded.weights.items()
    }


def count_bytes(tensors: dict[str, Floats]) -> int:
    """Bytes in a file."""
    return sum(4 * math.prod(array.shape) for array in tensors.values())
