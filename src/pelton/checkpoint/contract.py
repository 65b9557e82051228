"""What every format's reader offers: names, shapes and bytes of tensors, and the model, tokenizer and defaults.

One implementation per format, each final. Opening reads and checks metadata and no weights; `read` gives views of the
mapped file, so a checkpoint costs address space, not memory. Whatever is wrong with a file is a CheckpointError.
Runs in any process; not thread safe.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from pelton.checkpoint.mapped_file import MappedFile
from pelton.checkpoint.model_spec import ModelSpec
from pelton.checkpoint.weight import Tensor
from pelton.tokenization.source import TokenizerSource

Naming = Literal["hf", "gguf"]


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """A tensor without its bytes. `shape` is row-major: the last axis is contiguous, whatever the format writes."""

    name: str
    shape: tuple[int, ...]
    scheme: str
    nbytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationDefaults:
    """What the checkpoint's authors want when a request does not say. None: the checkpoint is silent."""

    eos_token_ids: tuple[int, ...] = ()  # every id that ends a text, in the order the sources name them
    bos_token_id: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    max_new_tokens: int | None = None
    not_followed: tuple[str, ...] = field(default=(), compare=False)  # fields that ask for what is not done here


class Checkpoint(ABC):
    """An opened model. Use as a context manager, or call `close`; tensors already read stay valid."""

    @property
    @abstractmethod
    def path(self) -> Path:
        """The directory or file it was opened from."""

    @property
    @abstractmethod
    def files(self) -> tuple[MappedFile, ...]:
        """The files that hold the weights, each once."""

    @property
    @abstractmethod
    def naming(self) -> Naming:
        """Which column of a weight map its tensor names belong to."""

    @property
    @abstractmethod
    def tensors(self) -> Mapping[str, TensorInfo]:
        """All tensors by name, in file order."""

    @abstractmethod
    def read(self, name: str) -> Tensor:
        """The tensor called `name`, its bytes a view of the mapped file.

        Raises CheckpointError for an unknown name and for a scheme that no code here can compute with.
        """

    @property
    @abstractmethod
    def spec(self) -> ModelSpec:
        """The model in our words."""

    @property
    @abstractmethod
    def generation(self) -> GenerationDefaults:
        """End-of-sequence ids and sampling defaults."""

    @property
    @abstractmethod
    def has_tokenizer(self) -> bool:
        """Whether there is a `tokenizer_source`; weights alone have none."""

    @property
    @abstractmethod
    def tokenizer_source(self) -> TokenizerSource:
        """What a tokenizer is built from. Raises CheckpointError where the checkpoint has none."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the files."""

    @property
    def weight_bytes(self) -> int:
        """Bytes of all tensors together."""
        return sum(info.nbytes for info in self.tensors.values())

    def __enter__(self) -> Checkpoint:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
