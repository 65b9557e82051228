"""Where every tensor of a checkpoint goes, from names and shapes alone: the loader's account without its bytes.

Follows the same weight maps as `loading.weights`, whose errors stop at the first tensor; here all of them are told.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pelton.checkpoint.contract import Checkpoint, TensorInfo
from pelton.checkpoint.model_spec import Experts
from pelton.loading.weights import Place, all_places, drop_reason, matching
from pelton.models import find_model


@dataclass(slots=True, kw_only=True)
class Account:
    """`used` maps a tensor to its place in the plan. `dropped` gives reasons."""

    used: dict[str, Place] = field(default_factory=dict)
    dropped: dict[str, str] = field(default_factory=dict)
    unknown: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    experts: Experts | None = None

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


def make_account(checkpoint: Checkpoint) -> Account:
    """Match the tensors of an opened checkpoint with its model file. Raises CheckpointError without a model file."""
    spec = checkpoint.spec
    weight_map = find_model(spec.architecture).WEIGHTS
    places = all_places(weight_map, checkpoint.naming, spec, checkpoint.tensors)
    account = Account(experts=spec.experts)
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
    account.missing = [key for key, place in places.items() if place.is_wanted(spec) and key not in found]
    return account
