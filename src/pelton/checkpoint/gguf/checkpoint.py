"""A checkpoint in one GGUF file, or in all parts of a split one: weights, model, tokenizer and defaults together."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import final

from pelton.checkpoint.contract import Checkpoint, GenerationDefaults, Naming, TensorInfo
from pelton.checkpoint.fields import Fields
from pelton.checkpoint.gguf.container import GgufTensor, Value
from pelton.checkpoint.gguf.parts import read_model
from pelton.checkpoint.gguf.spec import read_spec
from pelton.checkpoint.gguf.tensor_scales import find_scales, read_scales, scaled, scaled_info
from pelton.checkpoint.gguf.tokenizer_source import TOKENIZER, read_end_ids, read_token_id, read_tokenizer
from pelton.checkpoint.mapped_file import MappedFile
from pelton.checkpoint.model_spec import ModelSpec
from pelton.checkpoint.read_tensor import make_tensor, unknown_tensor
from pelton.checkpoint.weight import Bytes, Tensor
from pelton.tokenization.source import GgufTokenizerSource

_QUANTIZATION_VERSION = 2
_END_IDS = ("eos_token_id", "eot_token_id", "eom_token_id")


@final
class GgufCheckpoint(Checkpoint):
    """Opens and checks the file; raises CheckpointError."""

    def __init__(self, path: Path) -> None:
        self._container = read_model(path)
        self._metadata = Fields(str(path), self._container.metadata)
        self._refuse_others()
        self._scales, owned = find_scales(self._container.tensors)
        infos = {name: tensor.info for name, tensor in self._container.tensors.items() if name not in owned}
        changed = {name: scaled_info(infos[name], scale.info) for name, scale in self._scales.items()}
        self._tensors = {**infos, **changed}
        self._spec = read_spec(self._container)

    def _refuse_others(self) -> None:
        kind = self._metadata.text("general.type", "model")
        if kind != "model":
            raise self._metadata.error(f"holds a {kind!r}, not a model. Give the path of the model it belongs to.")
        if not self._container.tensors:
            raise self._metadata.error("holds no tensors, only metadata. Give the path of the model itself.")
        version = self._metadata.integer("general.quantization_version", _QUANTIZATION_VERSION)
        if version != _QUANTIZATION_VERSION:
            raise self._metadata.error(
                f"general.quantization_version is {version}; blocks are understood as version {_QUANTIZATION_VERSION} "
                "has them. Convert the model again."
            )

    @property
    def path(self) -> Path:
        return self._container.file.path

    @property
    def files(self) -> tuple[MappedFile, ...]:
        return self._container.files

    @property
    def naming(self) -> Naming:
        return "gguf"

    @property
    def tensors(self) -> Mapping[str, TensorInfo]:
        return self._tensors

    @property
    def spec(self) -> ModelSpec:
        return self._spec

    def read(self, name: str) -> Tensor:
        if name not in self._tensors:
            raise unknown_tensor(self.path, name, self._tensors)
        tensor = self._container.tensors[name]
        stored = make_tensor(tensor.file, tensor.info, tensor.offset)
        scale = self._scales.get(name)
        return stored if scale is None else scaled(stored, read_scales(scale, tensor.info))

    @cached_property
    def generation(self) -> GenerationDefaults:
        """End ids from the tokenizer's metadata, sampling from `general.sampling.*`."""
        fields = self._metadata
        ends = read_end_ids(fields, self._spec.vocab_size)
        if ends is None:
            ends = [end for name in _END_IDS if (end := self._token_id(name)) is not None]
        return GenerationDefaults(
            eos_token_ids=tuple(dict.fromkeys(ends)),
            bos_token_id=self._token_id("bos_token_id"),
            temperature=fields.nullable_number("general.sampling.temp"),
            top_p=fields.nullable_number("general.sampling.top_p"),
            top_k=fields.nullable_integer("general.sampling.top_k", minimum=0),
            min_p=fields.nullable_number("general.sampling.min_p"),
            repetition_penalty=fields.nullable_number("general.sampling.penalty_repeat"),
        )

    def _token_id(self, name: str) -> int | None:
        return read_token_id(self._metadata, name, self._spec.vocab_size)

    @property
    def has_tokenizer(self) -> bool:
        return self._metadata.has(TOKENIZER + "tokens")

    @property
    def metadata(self) -> Mapping[str, Value]:
        """All keys of the file and their values."""
        return self._container.metadata

    @property
    def stored(self) -> Mapping[str, GgufTensor]:
        """All tensors as the file has them: scales of whole tensors, which `tensors` multiplies in, are apart."""
        return self._container.tensors

    @property
    def header(self) -> Bytes | None:
        """All bytes before the first tensor's, as mapped. None: there are several files."""
        if len(self._container.files) > 1:
            return None
        return self._container.file.data[: min(tensor.offset for tensor in self._container.tensors.values())]

    @cached_property
    def tokenizer_source(self) -> GgufTokenizerSource:
        return read_tokenizer(self._metadata, self._container.metadata, self._spec.vocab_size)

    def close(self) -> None:
        for file in self._container.files:
            file.close()
