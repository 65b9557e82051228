"""What a conversion is going to write, and what it knows to be lost, before the first byte is written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pelton.checkpoint.gguf.writer import GgufValue
from pelton.checkpoint.model_spec import ModelSpec
from pelton.checkpoint.outgoing import Outgoing


@dataclass(frozen=True, slots=True)
class Loss:
    """Something that the target does not say. `matters`: a reader of the target computes something else."""

    field: str
    what: str
    matters: bool


@dataclass(frozen=True, slots=True)
class TensorRecord:
    """Where a tensor of the target comes from, and what was done to it."""

    target: str
    sources: tuple[str, ...]
    steps: tuple[str, ...]
    scheme: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """A target: tensors and what goes with them. `files` are beside the tensors, `metadata` is in a GGUF."""

    tensors: list[Outgoing]
    records: list[TensorRecord]
    losses: list[Loss]
    files: Mapping[str, bytes] = field(default_factory=dict)
    metadata: Mapping[str, GgufValue] = field(default_factory=dict)
    side: list[Outgoing] = field(default_factory=list)  # what a Hugging Face directory has no place for
    spec: ModelSpec | None = None  # what the target should say, if it is more than its source's keys can
    is_copy: bool = False  # tensors are written as they are stored
    weights: tuple[Path, ...] = ()  # of a source that is not opened as a model

    @property
    def nbytes(self) -> int:
        """About what the target will take on disk."""
        parts = [*self.tensors, *self.side]
        return sum(tensor.nbytes for tensor in parts) + sum(map(len, self.files.values())) + (1 << 20)
