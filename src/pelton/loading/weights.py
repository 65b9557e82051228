"""Every tensor of a checkpoint goes to exactly one place of the plan, or is dropped for a stated reason.

Proved, not assumed: a tensor that matches no row, a row whose tensor is missing, a tensor that must not be there and
two tensors for one place are all CheckpointErrors that name it. Bytes stay in the mapped file except where a
transform has to move them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from pelton.checkpoint.contract import Checkpoint
from pelton.checkpoint.dequantize import dequantize
from pelton.checkpoint.model_spec import ModelSpec
from pelton.checkpoint.weight import Tensor, Weight
from pelton.errors import CheckpointError, nearest
from pelton.loading.transform import transformed
from pelton.plan import Row, WeightMap
from pelton.plan.weight_map import Transform

LAYER = "{i}"


@dataclass(frozen=True, slots=True)
class Place:
    """One row of the map in one layer: what the tensor is called in the file and in the plan."""

    row: Row
    layer: int | None
    tensor: str
    to: str
    transform: Transform


@dataclass(frozen=True, slots=True)
class LoadedWeights:
    """Weights by plan name, and (tensor, reason) for each tensor that is not used."""

    weights: dict[str, Weight]
    dropped: tuple[tuple[str, str], ...]


def load_weights(checkpoint: Checkpoint, weight_map: WeightMap, spec: ModelSpec) -> LoadedWeights:
    """All weights of the plan, stacked in the order of the rows. Raises CheckpointError unless the match is exact."""
    places = all_places(weight_map, checkpoint.naming, spec)
    found: dict[str, str] = {}
    dropped: list[tuple[str, str]] = []
    unknown: list[str] = []
    for name in checkpoint.tensors:
        expected = matching(name, places, weight_map)
        reason = drop_reason(name, weight_map) if expected is None else None
        if expected is not None and not places[expected].row.when(spec):
            reason = spare_reason(places[expected], spec, checkpoint, name)
        if reason is not None:
            dropped.append((name, reason))
        elif expected is None:
            unknown.append(name)
        elif expected in found:
            raise CheckpointError(f"{name} and {found[expected]} are the same weight, {places[expected].to!r}.")
        else:
            found[expected] = name
    if unknown:
        raise CheckpointError(
            f"{checkpoint.path}: {listed(unknown)} in no row of the weight map of {spec.architecture!r}. "
            f"{nearest(unknown[0], places)}"
        )
    wanted = {name: place for name, place in places.items() if place.row.when(spec)}
    missing = [name for name in wanted if name not in found]
    if missing:
        raise CheckpointError(
            f"{checkpoint.path}: {listed(missing)} missing, and {spec.architecture!r} needs "
            f"{'it' if len(missing) == 1 else 'them'}. The file is incomplete or of another architecture."
        )
    return LoadedWeights(stacked(checkpoint, wanted, found, spec), tuple(dropped))


def all_places(weight_map: WeightMap, naming: str, spec: ModelSpec) -> dict[str, Place]:
    """Every row in every layer, by the tensor name that the rows spell."""
    places: dict[str, Place] = {}
    for row in weight_map.rows:
        pattern = row.hf if naming == "hf" else row.gguf
        if pattern is None:
            continue
        transform = row.transform if naming == "hf" else row.gguf_transform
        layers: list[int | None] = [*range(spec.num_layers)] if LAYER in row.to else [None]
        for layer in layers:
            tensor, to = (text.replace(LAYER, str(layer)) for text in (pattern, row.to))
            assert tensor not in places, f"weight map of {spec.architecture}: two rows name {tensor}"
            places[tensor] = Place(row, layer, tensor, to, transform)
    return places


def matching(name: str, places: Mapping[str, Place], weight_map: WeightMap) -> str | None:
    """The key of `places` that the tensor `name` belongs to: its own name, or the one under another prefix."""
    return next((spelling for spelling in spellings(name, weight_map) if spelling in places), None)


def spellings(name: str, weight_map: WeightMap) -> list[str]:
    """`name` and what it becomes under each pair of prefixes."""
    return [name] + [new + name[len(old) :] for old, new in weight_map.prefixes if name.startswith(old)]


def drop_reason(name: str, weight_map: WeightMap) -> str | None:
    """Why the map drops the tensor `name`, if it does."""
    for pattern, reason in weight_map.dropped:
        expression = re.escape(pattern).replace(re.escape(LAYER), r"\d+")
        if any(re.fullmatch(expression, spelling) for spelling in spellings(name, weight_map)):
            return reason
    return None


def spare_reason(place: Place, spec: ModelSpec, checkpoint: Checkpoint, name: str) -> str:
    """Why the tensor of `place`, which is not wanted, may be there all the same. Raises CheckpointError if it may not.

    GPTQ writes a bias for every linear, of zeros where the model has none.
    """
    if place.row.spare is not None:
        return place.row.spare
    if not place.to.endswith("bias") or dequantize(checkpoint.read(name)).any():
        raise CheckpointError(
            f"{name}: the configuration says that {spec.architecture!r} has no {place.to!r} here, the file holds one. "
            "The configuration and the weights belong to different models."
        )
    return "a bias of zeros, and the model has none"


def stacked(
    checkpoint: Checkpoint, wanted: Mapping[str, Place], found: Mapping[str, str], spec: ModelSpec
) -> dict[str, Weight]:
    """The weights of `wanted`, read, transformed and put together by plan name."""
    parts: dict[str, list[Tensor]] = {}
    for key, place in wanted.items():
        tensor = transformed(checkpoint.read(found[key]), place.transform, spec, place.layer)
        same = parts.setdefault(place.to, [])
        if same and same[0].shape[1:] != tensor.shape[1:]:
            raise CheckpointError(
                f"{tensor.name}: has shape {list(tensor.shape)}, which cannot be stacked below {same[0].name} "
                f"{list(same[0].shape)} to {place.to!r}."
            )
        same.append(tensor)
    return {to: Weight(to, tuple(tensors)) for to, tensors in parts.items()}


def listed(names: list[str]) -> str:
    """The first names of a list, with a verb: for the middle of a sentence."""
    shown = ", ".join(names[:3])
    rest = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"{'tensor' if len(names) == 1 else 'tensors'} {shown}{rest} {'is' if len(names) == 1 else 'are'}"
