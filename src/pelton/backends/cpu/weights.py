"""The weights of a program: matrices packed from their stored blocks, vectors as float32, tables left in the file.

A matrix is packed once, however many ops read it, and its pages of the checkpoint are given back at once.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from pelton.backends.cpu import _native
from pelton.backends.cpu.page_release import release_pages
from pelton.checkpoint.weight import Tensor, Weight
from pelton.errors import BackendError
from pelton.plan import WeightRef

Bytes = npt.NDArray[np.uint8]


class WeightStore:
    """Weights by plan name, as the native program wants them."""

    def __init__(self, weights: Mapping[str, Weight], *, exact: bool) -> None:
        self._weights = weights
        self._exact = exact
        self._matrices: dict[str, list[_native.Matrix]] = {}
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

    def activation_kinds(self, ref: WeightRef, *, is_wide: bool) -> list[_native.ActivationKind]:
        """For each part of a matrix, the form of activations that its kernel multiplies; wide ones have two terms."""
        return [_native.activation_kind(part.scheme, self._exact, is_wide) for part in self.get(ref).parts]

    def packed_bytes(self, ref: WeightRef) -> int:
        """Bytes that the parts of a matrix take when packed."""
        return sum(
            _native.packed_matrix_bytes(part.scheme, part.shape[0], part.shape[1], self._exact)
            for part in self.get(ref).parts
        )

    def matrices(self, program: _native.Program, ref: WeightRef) -> list[_native.Matrix]:
        """The packed parts of a matrix."""
        if ref.name not in self._matrices:
            self._matrices[ref.name] = [self._pack(program, part) for part in self.get(ref).parts]
        return self._matrices[ref.name]

    def _pack(self, program: _native.Program, part: Tensor, ups: Tensor | None = None) -> _native.Matrix:
        up_rows = None if ups is None else np.ascontiguousarray(ups.payload)
        rows = np.ascontiguousarray(part.payload)
        matrix = program.pack_matrix(part.scheme, rows, up_rows, part.shape[1], self._exact)
        for source in part.sources + (() if ups is None else ups.sources):
            release_pages(source)
        return matrix

    def gates_and_ups(self, ref: WeightRef) -> tuple[Tensor, Tensor] | None:
        """The two halves of a gated matrix, if they can be interleaved: one scheme, and whole tiles of 32 rows."""
        size = ref.shape[0] // 2
        parts = self.get(ref).parts
        if len(parts) == 1:
            (both,) = parts
            rows = both.payload
            halves = [(rows[:size], "gate"), (rows[size:], "up")]
            gates, ups = (
                Tensor(f"{both.name} ({half})", (size, *both.shape[1:]), both.scheme, payload)
                for payload, half in halves
            )
        elif len(parts) == 2:
            gates, ups = parts
        else:
            return None
        return (gates, ups) if gates.shape == ups.shape and gates.scheme == ups.scheme and size % 32 == 0 else None

    def gated_matrix(self, program: _native.Program, ref: WeightRef) -> _native.Matrix:
        """A matrix with gates and ups interleaved. Only where gates_and_ups() has them."""
        key = f"{ref.name} interleaved"
        if key not in self._matrices:
            halves = self.gates_and_ups(ref)
            assert halves is not None, f"{ref} cannot be interleaved"
            self._matrices[key] = [self._pack(program, *halves)]
        return self._matrices[key][0]

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
