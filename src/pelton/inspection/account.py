"""Where every tensor of a checkpoint goes, from names and shapes alone: the loader's account without its bytes.

Follows the same weight maps as `loading.weights`, whose errors stop at the first tensor; here all of them are told.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from pelton.checkpoint.contract import Checkpoint, TensorInfo
from pelton.checkpoint.model_spec import Experts, ModelSpec
from pelton.checkpoint.weight import Tensor, Weight
from pelton.loading.shape_check import check_shapes
from pelton.loading.weights import Place, all_places, drop_reason, matching
from pelton.models import find_model

_NOTHING = np.zeros((0, 0), dtype=np.uint8)


@dataclass(slots=True, kw_only=True)
class Account:
    """`used` maps a tensor to its place in the plan. `dropped` gives reasons."""

    used: dict[str, Place] = field(default_factory=dict)
    dropped: dict[str, str] = field(default_factory=dict)
    unknown: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    experts: Experts | None = None
    ranks: dict[str, int] = field(default_factory=dict)  # of a used tensor among the rows of the weight map

    def norms(self) -> list[str]:
        """Tensors that are the weights of norms."""
        return [name for name, place in self.used.items() if place.to.endswith("norm")]

    def names_of(self, to: str) -> list[str]:
        """Tensors that make up the plan's weight `to`."""
        return [name for name, place in self.used.items() if place.to == to]

    def count_idle(self, tensors: Mapping[str, TensorInfo]) -> int:
        """Elements of experts that one token does not see."""
        if self.experts is None:
            return 0
        stored = sum(count_elements(tensors[name]) for name, place in self.used.items() if ".experts_" in place.to)
        return stored - stored * self.experts.num_experts_per_token // self.experts.num_experts


def count_elements(info: TensorInfo) -> int:
    """The product of the shape."""
    count = 1
    for length in info.shape:
        count *= length
    return count


def check_account_shapes(account: Account, tensors: Mapping[str, TensorInfo], spec: ModelSpec) -> None:
    """Raise CheckpointError, as loading would, at the first weight of another size than the specification says."""
    parts: dict[str, list[tuple[int, Tensor]]] = {}
    for name in sorted(account.used, key=account.ranks.__getitem__):
        place = account.used[name]
        parts.setdefault(place.to, []).extend(_shaped(tensors[name], place, account.experts))
    weights = {}
    for to, same in parts.items():
        same.sort(key=lambda piece: piece[0])
        weights[to] = Weight(to, tuple(tensor for _, tensor in same))
    check_shapes(weights, spec)


def _shaped(info: TensorInfo, place: Place, experts: Experts | None) -> list[tuple[int, Tensor]]:
    """What the tensor brings to its weight, by expert, without bytes."""
    shape = info.shape
    if place.transform == "transpose":
        shape = shape[::-1]
    elif place.transform == "row":
        shape = (1, *shape[-1:])
    elif place.transform == "experts" and experts is not None and len(shape) == 3:
        return [(expert, Tensor(info.name, shape[1:], info.scheme, _NOTHING)) for expert in range(shape[0])]
    return [(place.expert or 0, Tensor(info.name, shape or (1,), info.scheme, _NOTHING))]


def make_account(checkpoint: Checkpoint) -> Account:
    """Match the tensors of an opened checkpoint with its model file. Raises CheckpointError without a model file."""
    spec = checkpoint.spec
    weight_map = find_model(spec.architecture).WEIGHTS
    places = all_places(weight_map, checkpoint.naming, spec, checkpoint.tensors)
    account = Account(experts=spec.experts)
    ranks = {key: rank for rank, key in enumerate(places)}
    found: set[str] = set()
    for name in checkpoint.tensors:
        key = matching(name, places, weight_map)
        reason = drop_reason(name, weight_map) if key is None else None
        if key is not None and not places[key].is_wanted(spec):
            reason = places[key].row.spare or ("not in this model" if places[key].to.endswith("bias") else None)
            key = None
        if reason is not None:
            account.dropped[name] = reason
        elif key is None:
            account.unknown.append(name)
        else:
            found.add(key)
            account.used[name] = places[key]
            account.ranks[name] = ranks[key]
    account.missing = [key for key, place in places.items() if place.is_wanted(spec) and key not in found]
    return account
