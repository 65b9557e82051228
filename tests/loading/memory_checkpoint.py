"""A checkpoint that is made of arrays in memory."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from pelton.checkpoint.contract import Checkpoint, GenerationDefaults, Naming, TensorInfo
from pelton.checkpoint.mapped_file import MappedFile
from pelton.checkpoint.model_spec import ModelSpec
from pelton.checkpoint.weight import Tensor
from pelton.tokenization.source import TokenizerSource


class MemoryCheckpoint(Checkpoint):
    """Tensors as given; arrays become F32 ones."""

    def __init__(
        self, tensors: Mapping[str, np.ndarray | Tensor], spec: ModelSpec | None = None, naming: Naming = "hf"
    ) -> None:
        self._tensors = {name: self._tensor(name, tensor) for name, tensor in tensors.items()}
        self._spec = spec
        self._naming = naming

    @staticmethod
    def _tensor(name: str, tensor: np.ndarray | Tensor) -> Tensor:
        if isinstance(tensor, Tensor):
            return tensor
        rows = tensor.reshape(-1, tensor.shape[-1]).astype(np.float32)
        return Tensor(name, tensor.shape, "F32", rows.view(np.uint8))

    @property
    def path(self) -> Path:
        return Path("memory")

    @property
    def files(self) -> tuple[MappedFile, ...]:
        return ()

    @property
    def naming(self) -> Naming:
        return self._naming

    @property
    def tensors(self) -> Mapping[str, TensorInfo]:
        return {t.name: TensorInfo(t.name, t.shape, t.scheme, t.payload.nbytes) for t in self._tensors.values()}

    def read(self, name: str) -> Tensor:
        return self._tensors[name]

    @property
    def spec(self) -> ModelSpec:
        assert self._spec is not None, "this checkpoint was made without a specification"
        return self._spec

    @property
    def generation(self) -> GenerationDefaults:
        return GenerationDefaults()

    @property
    def has_tokenizer(self) -> bool:
        return False

    @property
    def tokenizer_source(self) -> TokenizerSource:
        raise AssertionError("loading needs no tokenizer")

    def close(self) -> None:
        """Nothing is open."""
