"""The weights of a program: matrices packed from their stored blocks, vectors as float32, tables left in the file.

A matrix is packed once, however many ops read it, in pieces whose pages of the checkpoint are given back at once: what
is held beside the packed weights is one piece.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pelton.backends.cpu import _native
from pelton.backends.cpu.mapped_pages import read_ahead, release_pages
from pelton.backends.cpu.weight_cache import WeightCache
from pelton.backends.cpu.weight_key import Placed, compute_key
from pelton.checkpoint.scheme import row_bytes
from pelton.checkpoint.weight import Tensor, Weight
from pelton.errors import BackendError
from pelton.plan import WeightRef

Bytes = npt.NDArray[np.uint8]


STRIP_ROWS = 64
PIECE_BYTES = 8 << 20  # of the checkpoint: as much is held beside its packed form
READ_AHEAD_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class Piece:
    """Strips [first_strip, last_strip) of a matrix, and their rows."""

    rows: tuple[Bytes, ...]
    first_strip: int
    last_strip: int


def cut(rows: tuple[Bytes, ...]) -> Iterator[Piece]:
    """The pieces of one matrix with those rows, in order."""
    strip_rows = STRIP_ROWS // len(rows)  # of each source
    num_strips = -(-len(rows[0]) // strip_rows)
    step = max(1, PIECE_BYTES // (STRIP_ROWS * rows[0].shape[1]))
    for first in range(0, num_strips, step):
        last = min(first + step, num_strips)
        yield Piece(tuple(each[first * strip_rows : last * strip_rows] for each in rows), first, last)


def part_bytes(placed: Placed) -> int:
    """Bytes of the rows that a matrix is packed from."""
    return sum(part.shape[0] * row_bytes(part.scheme, part.shape[1]) for part in placed.parts)


class WeightStore:
    """Weights by plan name, as the native program wants them."""

    def __init__(self, weights: Mapping[str, Weight], *, exact: bool) -> None:
        self._weights = dict(weights)
        self._exact = exact
        self._placed: list[Placed] = []
        self._matrices: dict[str, list[_native.Matrix]] = {}
        self._gated: dict[str, _native.Matrix] = {}
        self._vectors: dict[str, _native.Vector] = {}
        self.tables: list[Bytes] = []  # must live as long as the program

    def get(self, ref: WeightRef) -> Weight:
        """The weight called `ref.name`, checked against the shape that the plan knows."""
        if ref.name not in self._weights:
            raise BackendError(f"cpu: the plan reads weight {ref.name!r}, which is not among those loaded.")
        weight = self._weights[ref.name]
        if weight.shape != ref.shape:
            raise BackendError(f"cpu: weight {ref.name!r} has shape {weight.shape}, the plan says {ref}.")
        return weight

    def pieces(self, ref: WeightRef, num_pieces: int) -> list[WeightRef]:
        """A matrix cut into pieces with equally many rows, each from then on a weight of this store."""
        made = self.get(ref).pieces(num_pieces)
        self._weights |= {weight.name: weight for weight in made}
        return [WeightRef(weight.name, weight.shape) for weight in made]

    def activation_kinds(self, ref: WeightRef, *, is_wide: bool) -> list[_native.ActivationKind]:
        """For each part of a matrix, the form of activations that its kernel multiplies; wide ones have two terms."""
        return [_native.activation_kind(part.scheme, self._exact, is_wide) for part in self.get(ref).parts]

    def packed_bytes(self, ref: WeightRef) -> int:
        """Bytes that the parts of a matrix take when packed."""
        return sum(
            _native.packed_matrix_bytes(part.scheme, part.shape[0], part.shape[1], self._exact)
            for part in self.get(ref).parts
        )

    def place(self, program: _native.Program, plain: Iterable[WeightRef], gated: Iterable[WeightRef]) -> None:
        """Give every matrix its place among the packed weights of `program`, in this order."""
        for ref in plain:
            self._matrices[ref.name] = [self._place(program, part) for part in self.get(ref).parts]
        for ref in gated:
            halves = self.gates_and_ups(ref)
            assert halves is not None, f"{ref} cannot be interleaved"
            self._gated[ref.name] = self._place(program, *halves)

    def _place(self, program: _native.Program, *parts: Tensor) -> _native.Matrix:
        num_rows = sum(part.shape[0] for part in parts)
        matrix = program.place_matrix(parts[0].scheme, num_rows, parts[0].shape[1], self._exact)
        self._placed.append(Placed(matrix, parts))
        return matrix

    def fill(
        self,
        program: _native.Program,
        num_threads: int,
        cache: WeightCache | None,
        on_fraction: Callable[[float], None],
    ) -> bool:
        """Bring all matrices to their places, from `cache` if it has them; whether it had. Else it gets them.

        `on_fraction` hears how much is done (0 to 1).
        """
        if cache is None:
            self.pack(program, on_fraction)
            return False
        key = compute_key(self._placed, cache.files, exact=self._exact)
        if cache.load(key, program.packed(), num_threads, on_fraction):
            return True
        self.pack(program, on_fraction)
        cache.store(key, program.packed())
        return False

    def pack(self, program: _native.Program, on_fraction: Callable[[float], None]) -> None:
        """Pack every matrix into its place, piece by piece; `on_fraction` hears how much is done (0 to 1)."""
        total_bytes = sum(part_bytes(placed) for placed in self._placed)
        done_bytes = asked_bytes = 0
        ahead = iter(self._placed)
        for placed in self._placed:
            while asked_bytes <= done_bytes + READ_AHEAD_BYTES and (coming := next(ahead, None)) is not None:
                for source in coming.sources:
                    read_ahead(source)
                asked_bytes += part_bytes(coming)
            rows = tuple(np.ascontiguousarray(part.payload) for part in placed.parts)
            ups = rows[1] if len(rows) > 1 else None
            for piece in cut(rows):
                program.pack_strips(placed.matrix, rows[0], ups, piece.first_strip, piece.last_strip)
                for each in piece.rows:
                    release_pages(each)
                done_bytes += sum(each.nbytes for each in piece.rows)
                on_fraction(min(1.0, done_bytes / total_bytes))
            for source in placed.sources:
                release_pages(source)

    def matrices(self, ref: WeightRef) -> list[_native.Matrix]:
        """The packed parts of a matrix that has its place."""
        return self._matrices[ref.name]

    def gated_matrix(self, ref: WeightRef) -> _native.Matrix:
        """A matrix with gates and ups interleaved that has its place."""
        return self._gated[ref.name]

    def gates_and_ups(self, ref: WeightRef) -> tuple[Tensor, Tensor] | None:
        """The two halves of a gated matrix, if they can be interleaved: one scheme, and whole tiles of 32 rows."""
        size = ref.shape[0] // 2
        parts = self.get(ref).parts
        if len(parts) == 1:
            gates, ups = parts[0].rows(0, size, "gate"), parts[0].rows(size, 2 * size, "up")
        elif len(parts) == 2:
            gates, ups = parts
        else:
            return None
        return (gates, ups) if gates.shape == ups.shape and gates.scheme == ups.scheme and size % 32 == 0 else None

    def gated_bias(self, program: _native.Program, ref: WeightRef | None) -> _native.Vector | None:
        """A bias in the order of the rows of gated_matrix(); None stays None."""
        if ref is None:
            return None
        key = f"{ref.name} interleaved"
        if key not in self._vectors:
            gates, ups = self._floats(ref).reshape(2, -1, 32)
            self._vectors[key] = program.add_vector(np.stack([gates, ups], axis=1).ravel())
        return self._vectors[key]

    def vector(self, program: _native.Program, ref: WeightRef | None) -> _native.Vector | None:
        """A norm's weight or a bias, in float32; None stays None."""
        if ref is None:
            return None
        if ref.name not in self._vectors:
            self._vectors[ref.name] = program.add_vector(self._floats(ref))
        return self._vectors[ref.name]

    def _floats(self, ref: WeightRef) -> npt.NDArray[np.float32]:
        parts = self.get(ref).parts
        values = [_native.dequantize(p.scheme, np.ascontiguousarray(p.payload), p.shape[-1]).ravel() for p in parts]
        return np.concatenate(values)

    def table(self, ref: WeightRef) -> Tensor:
        """An embedding's rows, as the checkpoint stores them. The store keeps them alive."""
        weight = self.get(ref)
        if len(weight.parts) != 1:
            raise BackendError(
                f"cpu: embedding {ref.name!r} is stacked from {len(weight.parts)} tensors; it must be one."
            )
        (part,) = weight.parts
        payload = np.ascontiguousarray(part.payload)
        self.tables.append(payload)
        return Tensor(part.name, part.shape, part.scheme, payload)
