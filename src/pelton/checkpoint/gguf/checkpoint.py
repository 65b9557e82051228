"""A checkpoint in one GGUF file, or in all parts of a split one: weights, model, tokenizer and defaults together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, final

import numpy as np

from pelton.checkpoint.contract import Checkpoint, GenerationDefaults, Naming, TensorInfo
from pelton.checkpoint.fields import Fields
from pelton.checkpoint.gguf.container import Value
from pelton.checkpoint.gguf.parts import read_model
from pelton.checkpoint.gguf.spec import read_spec
from pelton.checkpoint.gguf.string_array import StringArray
from pelton.checkpoint.gguf.tensor_scales import find_scales, read_scales, scaled, scaled_info
from pelton.checkpoint.mapped_file import MappedFile
from pelton.checkpoint.model_spec import ModelSpec
from pelton.checkpoint.read_tensor import make_tensor, unknown_tensor
from pelton.checkpoint.weight import Bytes, Tensor
from pelton.tokenization.source import GgufTokenizerSource

_TOKENIZER = "tokenizer.ggml."
_QUANTIZATION_VERSION = 2
END_IDS = "pelton.end_token_ids"
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
        ends = self._read_ends()
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

    def _read_ends(self) -> list[int] | None:
        """All ids that end a text, of a file that was converted here; the format itself has names for three."""
        ends = self._metadata.take(END_IDS)
        if ends is None:
            return None
        is_list = isinstance(ends, np.ndarray) and np.issubdtype(ends.dtype, np.integer)
        if not is_list or not all(0 <= end < self._spec.vocab_size for end in ends):
            raise self._metadata.error(f"{END_IDS} is not an array of ids below {self._spec.vocab_size}.")
        numbers: list[int] = ends.tolist()
        return numbers

    def _token_id(self, name: str) -> int | None:
        token_id = self._metadata.nullable_integer(_TOKENIZER + name, minimum=0)
        if token_id is not None and token_id >= self._spec.vocab_size:
            raise self._metadata.error(
                f"{_TOKENIZER}{name} is {token_id}; the model has {self._spec.vocab_size} tokens."
            )
        return token_id

    @property
    def has_tokenizer(self) -> bool:
        return self._metadata.has(_TOKENIZER + "tokens")

    @property
    def metadata(self) -> Mapping[str, Value]:
        """All keys of the file and their values."""
        return self._container.metadata

    @property
    def header(self) -> Bytes | None:
        """All bytes before the first tensor's, as mapped. None: of several files, or of tensors with scales beside."""
        if len(self._container.files) > 1 or self._scales:
            return None
        return self._container.file.data[: min(tensor.offset for tensor in self._container.tensors.values())]

    @cached_property
    def tokenizer_source(self) -> GgufTokenizerSource:
        fields = self._metadata
        tokens = self._strings("tokens")
        if not tokens:
            raise fields.error("holds no tokenizer: the key tokenizer.ggml.tokens is missing or empty.")
        if len(tokens) > self._spec.vocab_size:
            raise fields.error(f"has {len(tokens)} tokens and embeddings for only {self._spec.vocab_size} of them.")
        settings = {
            key.removeprefix(_TOKENIZER): value
            for key, value in self._container.metadata.items()
            if key.startswith(_TOKENIZER)
        }
        return GgufTokenizerSource(
            model=fields.text(_TOKENIZER + "model"),
            pre=fields.text(_TOKENIZER + "pre", ""),
            tokens=tokens,
            scores=self._numbers("scores", len(tokens), np.floating),
            token_types=self._numbers("token_type", len(tokens), np.integer),
            merges=self._strings("merges"),
            ids=self._read_ids(key for key in settings if key.endswith("_token_id")),
            flags={key: value for key, value in settings.items() if isinstance(value, bool)},
            chat_template=fields.text("tokenizer.chat_template", "") or None,
            precompiled_charsmap=self._read_charsmap(),
            end_ids=None if (ends := self._read_ends()) is None else frozenset(ends),
            chat_templates=self._read_templates(),
        )

    def _read_charsmap(self) -> bytes:
        table = self._metadata.take(_TOKENIZER + "precompiled_charsmap")
        if table is None:
            return b""
        if not isinstance(table, np.ndarray) or table.dtype.itemsize != 1:
            raise self._metadata.error(f"{_TOKENIZER}precompiled_charsmap is not an array of bytes.")
        return table.tobytes()

    def _read_templates(self) -> dict[str, str]:
        """The named templates, each under a key of its own."""
        prefix = "tokenizer.chat_template."
        names = [key.removeprefix(prefix) for key in self._container.metadata if key.startswith(prefix)]
        return {name: self._metadata.text(prefix + name) for name in names}

    def _read_ids(self, names: Iterable[str]) -> dict[str, int]:
        ids = {name: self._token_id(name) for name in names}
        return {name: token_id for name, token_id in ids.items() if token_id is not None}

    def _strings(self, name: str) -> Sequence[str]:
        values = self._metadata.take(_TOKENIZER + name)
        if values is None:
            return ()
        if not isinstance(values, StringArray):
            raise self._metadata.error(f"{_TOKENIZER}{name} is not an array of strings.")
        return values

    def _numbers(self, name: str, count: int, kind: type) -> Sequence[Any]:
        values = self._metadata.take(_TOKENIZER + name)
        if values is None:
            return ()
        if not isinstance(values, np.ndarray) or not np.issubdtype(values.dtype, kind) or len(values) != count:
            raise self._metadata.error(f"{_TOKENIZER}{name} is not an array of {count} numbers, one for each token.")
        numbers: list[Any] = values.tolist()
        return numbers

    def close(self) -> None:
        for file in self._container.files:
            file.close()
