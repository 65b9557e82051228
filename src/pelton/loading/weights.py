"""Every tensor of a checkpoint goes to exactly one place of the plan, or is dropped for a stated reason.

Proved, not assumed: a tensor that matches no row, a row whose tensor is missing, a tensor that must not be there and
two tensors for one place are all CheckpointErrors that name it. Bytes stay in the mapped file except where a
transform has to move them.
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from dataclasses import dataclass

import numpy as np

from pelton.checkpoint.contract import Checkpoint
from pelton.checkpoint.dequantize import dequantize
from pelton.checkpoint.model_spec import ModelSpec
from pelton.checkpoint.recode import recoded
from pelton.checkpoint.weight import Tensor, Weight
from pelton.errors import CheckpointError, nearest
from pelton.loading.transform import expert_matrices, transformed
from pelton.plan import Row, WeightMap
from pelton.plan.weight_map import Transform

LAYER, EXPERT = "{i}", "{x}"
COMPARED_ROWS = 4096  # at once, of two tensors that should be equal


@dataclass(frozen=True, slots=True)
class Place:
    """One row of the map in one layer, for one expert: what the tensor is called in the file and in the plan."""

    row: Row
    layer: int | None
    expert: int | None
    tensor: str
    to: str
    transform: Transform

    def is_wanted(self, spec: ModelSpec) -> bool:
        """Whether the conditions of the row hold here."""
        return self.row.when(spec) and (self.layer is None or self.row.in_layer(spec.layers[self.layer]))


@dataclass(frozen=True, slots=True)
class LoadedWeights:
    """Weights by plan name, and (tensor, reason) for each tensor that is not used."""

    weights: dict[str, Weight]
    dropped: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Match:
    """Which tensor of a file is what: `names` by the keys of `places`, all of them wanted, and (tensor, reason)."""

    places: dict[str, Place]
    names: dict[str, str]
    dropped: tuple[tuple[str, str], ...]


def load_weights(checkpoint: Checkpoint, weight_map: WeightMap, spec: ModelSpec) -> LoadedWeights:
    """All weights of the plan, stacked in the order of the rows. Raises CheckpointError unless the match is exact."""
    match = match_tensors(checkpoint, weight_map, spec)
    return LoadedWeights(stacked(checkpoint, match.places, match.names, spec), match.dropped)


def match_tensors(checkpoint: Checkpoint, weight_map: WeightMap, spec: ModelSpec) -> Match:
    """The place of every tensor. Raises CheckpointError unless each has one, or a reason, and each place a tensor."""
    places = all_places(weight_map, checkpoint.naming, spec, checkpoint.tensors)
    found: dict[str, str] = {}
    dropped: list[tuple[str, str]] = []
    unknown: list[str] = []
    spare: dict[str, Place] = {}
    for name in checkpoint.tensors:
        expected = matching(name, places, weight_map)
        reason = drop_reason(name, weight_map) if expected is None else None
        if expected is not None and not places[expected].is_wanted(spec):
            reason = spare_reason(places[expected], spec, checkpoint, name)
            spare[name] = places[expected]
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
    wanted = {name: place for name, place in places.items() if place.is_wanted(spec)}
    missing = [name for name in wanted if name not in found]
    if missing:
        raise CheckpointError(
            f"{checkpoint.path}: {listed(missing)} missing, and {spec.architecture!r} needs "
            f"{'it' if len(missing) == 1 else 'them'}. The file is incomplete or of another architecture."
        )
    originals = {places[key].to: name for key, name in found.items()}
    for name, place in spare.items():
        if (original := originals.get(place.row.copies or "")) is not None:
            check_copy(checkpoint, name, original)
    return Match(wanted, found, tuple(dropped))


def all_places(weight_map: WeightMap, naming: str, spec: ModelSpec, names: Container[str]) -> dict[str, Place]:
    """Every row in every layer and for every expert, by the tensor name that the rows spell.

    `names` are those of the file: they decide about alternatives.
    """
    places: dict[str, Place] = {}
    for row in weight_map.rows:
        for place in places_of(row, naming, spec):
            assert place.tensor not in places, f"weight map of {spec.architecture}: two rows name {place.tensor}"
            places[place.tensor] = place
    for row in weight_map.alternatives:
        for place in places_of(row, naming, spec):
            if place.tensor in names:
                places = {name: other for name, other in places.items() if other.to != place.to}
                places[place.tensor] = place
    return places


def places_of(row: Row, naming: str, spec: ModelSpec) -> list[Place]:
    """One row in every layer and for every expert; nothing where the format has no such tensor."""
    pattern = row.hf if naming == "hf" else row.gguf
    if pattern is None:
        return []
    transform = row.transform if naming == "hf" else row.gguf_transform
    layers: list[int | None] = [*range(spec.num_layers)] if LAYER in row.to else [None]
    num_experts = 0 if spec.experts is None else spec.experts.num_experts
    experts: list[int | None] = [*range(num_experts)] if EXPERT in pattern else [None]
    return [
        Place(
            row,
            layer,
            expert,
            pattern.replace(LAYER, str(layer)).replace(EXPERT, str(expert)),
            row.to.replace(LAYER, str(layer)),
            transform,
        )
        for layer in layers
        for expert in experts
    ]


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


def check_copy(checkpoint: Checkpoint, name: str, original: str) -> None:
    """Raise CheckpointError unless the spare tensor `name` equals what it is said to be a copy of.

    A head that differs from the embedding in a model that ties them: one of the two is wrong, and which one a program
    uses depends on the program. Costs a pass over both.
    """
    if not is_equal(checkpoint.read(name), checkpoint.read(original)):
        raise CheckpointError(
            f"{checkpoint.path}: {name} differs from {original}, and the configuration ties them. Set "
            f"tie_word_embeddings to false if {name} is meant, or remove it if it is not."
        )


def is_equal(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors hold the same bytes."""
    if (one.shape, one.scheme) != (other.shape, other.scheme):
        return False
    ours, theirs = one.payload, other.payload
    return all(
        np.array_equal(ours[begin : begin + COMPARED_ROWS], theirs[begin : begin + COMPARED_ROWS])
        for begin in range(0, len(ours), COMPARED_ROWS)
    )


def stacked(
    checkpoint: Checkpoint, wanted: Mapping[str, Place], found: Mapping[str, str], spec: ModelSpec
) -> dict[str, Weight]:
    """The weights of `wanted`, read, transformed and put together by plan name."""
    parts: dict[str, list[tuple[int, Tensor]]] = {}
    for key, place in wanted.items():
        same = parts.setdefault(place.to, [])
        for expert, tensor in pieces(checkpoint.read(found[key]), place, spec):
            if same and same[0][1].shape[1:] != tensor.shape[1:]:
                raise CheckpointError(
                    f"{tensor.name}: has shape {list(tensor.shape)}, which cannot be stacked below {same[0][1].name} "
                    f"{list(same[0][1].shape)} to {place.to!r}."
                )
            same.append((expert, tensor))
    for same in parts.values():
        same.sort(key=lambda piece: piece[0])  # stable: rows keep their order within an expert
    return {to: Weight(to, tuple(tensor for _, tensor in same)) for to, same in parts.items()}


def pieces(tensor: Tensor, place: Place, spec: ModelSpec) -> list[tuple[int, Tensor]]:
    """What the tensor brings to its weight, by expert: one transformed tensor, or a matrix for each expert."""
    if place.transform == "experts":
        assert spec.experts is not None, f"{place.to}: this model has no experts"
        matrices = expert_matrices(tensor, spec.experts.num_experts)
        return [(expert, recoded(matrix)) for expert, matrix in enumerate(matrices)]
    # Doubles are vectors that transforms compute with; of the others, rows are moved as they are stored.
    stored = recoded(tensor) if tensor.scheme == "F64" else tensor
    return [(place.expert or 0, recoded(transformed(stored, place.transform, spec, place.layer)))]


def listed(names: list[str]) -> str:
    """The first names of a list, with a verb: for the middle of a sentence."""
    shown = ", ".join(names[:3])
    rest = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"{'tensor' if len(names) == 1 else 'tensors'} {shown}{rest} {'is' if len(names) == 1 else 'are'}"
