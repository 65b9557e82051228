"""Every tensor of a target, made from those of a source: by way of the plan, where both mean the same place.

A target tensor is found by its row of the weight map, its layer and its expert; the source may keep experts apart,
all in one, or gates and ups of all in one. Shapes and schemes are known without reading; bytes are made on demand.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from pelton.checkpoint.contract import Checkpoint, Naming
from pelton.checkpoint.scheme import DENSE
from pelton.checkpoint.weight import Tensor
from pelton.conversion.dense import is_exact
from pelton.conversion.inverse import shape_after, shape_before, untransformed
from pelton.errors import CheckpointError
from pelton.loading.transform import expert_matrices, transformed
from pelton.loading.weights import Match, Place, match_tensors, places_of
from pelton.models import find_model
from pelton.plan import Row


@dataclass(frozen=True, slots=True)
class Piece:
    """A tensor of the target. `steps` says in words what was done to the source's `sources` for it."""

    name: str
    shape: tuple[int, ...]
    scheme: str
    sources: tuple[str, ...]
    steps: tuple[str, ...]
    read: Callable[[], Tensor]


def list_pieces(checkpoint: Checkpoint, naming: Naming) -> tuple[list[Piece], Match]:
    """All tensors of the model under the names of `naming`, in the order of the weight map, layer by layer."""
    weight_map = find_model(checkpoint.spec.architecture).WEIGHTS
    match = match_tensors(checkpoint, weight_map, checkpoint.spec)
    source = _Source(checkpoint, match)
    targets = [place for row in weight_map.rows for place in places_of(row, naming, checkpoint.spec)]
    wanted = [place for place in targets if place.is_wanted(checkpoint.spec)]
    wanted.sort(key=lambda place: -1 if place.layer is None else place.layer)
    return [source.make_target(place) for place in wanted], match


def is_rounded(piece: Piece, scheme: str) -> bool:
    """Whether writing the piece as `scheme` changes a number. Reads it until one does."""
    if scheme in ("F32", piece.scheme):
        return False
    return piece.scheme not in DENSE or not is_exact(piece.read(), scheme)


class _Source:
    """The source's tensors by where they are in the plan."""

    def __init__(self, checkpoint: Checkpoint, match: Match) -> None:
        self._checkpoint = checkpoint
        self._spec = checkpoint.spec
        self._found: dict[tuple[str, int | None, int | None], tuple[str, Place]] = {}
        self._stacks: dict[tuple[str, int | None], tuple[str, Place]] = {}  # all experts of all rows of a plan weight
        rows = find_model(self._spec.architecture).WEIGHTS.rows
        self._kin: dict[str, list[Row]] = {}
        for row in rows:
            self._kin.setdefault(row.to, []).append(row)
        for key, place in match.places.items():
            if place.row in rows:
                self._found[_identify(place.row), place.layer, place.expert] = match.names[key], place
            else:
                self._stacks[place.to, place.layer] = match.names[key], place

    def make_target(self, place: Place) -> Piece:
        """The tensor of `place`, of another format or the same."""
        if place.transform != "experts":
            return self._finish(self._take(place.row, place.layer, place.expert, place.to), place)
        assert self._spec.experts is not None, f"{place.to}: this model has no experts"
        count = self._spec.experts.num_experts
        parts = [self._take(place.row, place.layer, expert, place.to) for expert in range(count)]
        if len({part.scheme for part in parts}) > 1:
            raise CheckpointError(
                f"{place.tensor}: the experts are stored as {sorted({part.scheme for part in parts})}; "
                "one tensor can only hold one of them."
            )
        return Piece(
            place.tensor,
            (count, *parts[0].shape),
            parts[0].scheme,
            tuple(dict.fromkeys(name for part in parts for name in part.sources)),
            ("stack experts",),
            lambda: stack(place.tensor, [part.read() for part in parts]),
        )

    def _finish(self, piece: Piece, place: Place) -> Piece:
        """From the plan's form to the target's."""
        made_by = self._source_transform(place.row, place.layer, place.expert)
        if made_by == place.transform:  # what would be done and undone is not done
            found = self._found[_identify(place.row), place.layer, place.expert][0]
            info = self._checkpoint.tensors[found]
            return replace(
                piece, name=place.tensor, shape=info.shape, scheme=info.scheme, steps=(), read=self._raw(found)
            )
        steps = piece.steps if place.transform == "none" else (*piece.steps, f"undo {place.transform}")
        return replace(
            piece,
            name=place.tensor,
            shape=shape_before(piece.shape, place.transform),
            scheme="F32" if place.transform == "plus_one" else piece.scheme,
            steps=steps,
            read=lambda: untransformed(piece.read(), place.transform, self._spec, place.layer),
        )

    def _source_transform(self, row: Row, layer: int | None, expert: int | None) -> str | None:
        found = self._found.get((_identify(row), layer, expert))
        return None if found is None else found[1].transform

    def _raw(self, name: str) -> Callable[[], Tensor]:
        return lambda: self._checkpoint.read(name)

    def _take(self, row: Row, layer: int | None, expert: int | None, to: str) -> Piece:
        """What the plan sees of one row: a matrix of one expert, or the whole tensor."""
        found = self._found.get((_identify(row), layer, expert))
        if found is not None:
            name, place = found
            info = self._checkpoint.tensors[name]
            scheme = "F32" if place.transform == "plus_one" else info.scheme
            steps = () if place.transform == "none" else (place.transform,)
            return Piece(
                name,
                shape_after(info.shape, place.transform),
                scheme,
                (name,),
                steps,
                lambda: transformed(self._checkpoint.read(name), place.transform, self._spec, layer),
            )
        assert expert is not None, f"{to}: nothing in the file is {row}"
        together = self._found.get((_identify(row), layer, None))
        if together is not None:
            return self._cut(together[0], expert, 0, 1)
        kin = self._kin[row.to]
        return self._cut(self._stacks[to, layer][0], expert, kin.index(row), len(kin))

    def _cut(self, name: str, expert: int, part: int, num_parts: int) -> Piece:
        """One expert of a tensor that stacks them, and of its rows one of several equal parts."""
        assert self._spec.experts is not None, f"{name}: this model has no experts"
        count = self._spec.experts.num_experts
        info = self._checkpoint.tensors[name]
        num_rows = info.shape[1] // num_parts
        steps = (f"expert {expert}",) if num_parts == 1 else (f"expert {expert}", f"part {part + 1} of {num_parts}")

        def read() -> Tensor:
            matrix = expert_matrices(self._checkpoint.read(name), count)[expert]
            return matrix if num_parts == 1 else matrix.rows(part * num_rows, (part + 1) * num_rows, f"part {part}")

        return Piece(name, (num_rows, info.shape[2]), info.scheme, (name,), steps, read)


def _identify(row: Row) -> str:
    return f"{row.to} {row.hf}"


def stack(name: str, parts: list[Tensor]) -> Tensor:
    """Matrices of equal shape and scheme as one tensor [X, rows, columns]."""
    rows = np.concatenate([part.payload for part in parts])
    return Tensor(name, (len(parts), *parts[0].shape), parts[0].scheme, rows)
