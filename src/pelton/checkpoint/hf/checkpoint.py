"""A checkpoint in a directory of Hugging Face's layout: config.json, weights, tokenizer.json and what is beside.

A chat template may stand in four places; as in transformers, `chat_template.jinja` wins over `tokenizer_config.json`,
and a directory `additional_chat_templates` adds named ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, final

from pelton.checkpoint.contract import Checkpoint, GenerationDefaults, Naming, TensorInfo
from pelton.checkpoint.fields import Fields
from pelton.checkpoint.hf.generation import read_generation
from pelton.checkpoint.hf.quantized import find_quantized, read_quantization
from pelton.checkpoint.hf.shards import find_onnx, read_weights
from pelton.checkpoint.hf.spec import read_spec
from pelton.checkpoint.mapped_file import MappedFile
from pelton.checkpoint.model_spec import ModelSpec
from pelton.checkpoint.onnx.tables import check_tables
from pelton.checkpoint.read_tensor import make_placed_tensor, unknown_tensor
from pelton.checkpoint.strict_json import load_object
from pelton.checkpoint.weight import Tensor
from pelton.errors import CheckpointError
from pelton.tokenization.source import HfTokenizerSource

_MAX_TEMPLATE_BYTES = 4 << 20
_DTYPES = {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}


@final
class HfCheckpoint(Checkpoint):
    """Opens and checks the directory's configuration and weights; raises CheckpointError.

    `weights` is the file that holds them all, where it is not to be found by its name.
    """

    def __init__(self, path: Path, weights: Path | None = None, *, checks_sums: bool = True) -> None:
        self._path = path
        self._weights = weights
        self._config = load_object(path / "config.json")
        source = str(path / "config.json")
        self._placed = read_weights(weights or path)
        for placed in self._placed.values():
            if placed.record is not None and not checks_sums:
                placed.record.is_checked = True
        quantization = read_quantization(self._config, source)
        self._quantized = {} if quantization is None else find_quantized(self._placed, quantization)
        self._tensors = self._list_tensors()
        self._spec = read_spec(self._config, source=source, stored_dtype=self._get_stored_dtype())
        graph = find_onnx(weights or path)
        self._graph = () if graph is None else (MappedFile(graph),)
        if graph is not None:
            check_tables(graph, self._spec)

    def _list_tensors(self) -> dict[str, TensorInfo]:
        """In file order, a quantized linear where the first of its tensors is."""
        owner = {part.info.name: linear for linear in self._quantized.values() for part in linear.parts.values()}
        infos = (owner[name].info if name in owner else placed.info for name, placed in self._placed.items())
        return {info.name: info for info in infos}

    def _get_stored_dtype(self) -> str:
        dense = (info for info in self._tensors.values() if info.scheme in _DTYPES)
        largest = max(dense, key=lambda info: info.nbytes, default=None)
        return "float32" if largest is None else _DTYPES[largest.scheme]

    @property
    def path(self) -> Path:
        return self._weights or self._path

    @property
    def files(self) -> tuple[MappedFile, ...]:
        files = (*(placed.file for placed in self._placed.values()), *self._graph)
        return tuple({file.path: file for file in files}.values())

    @property
    def naming(self) -> Naming:
        return "hf"

    @property
    def tensors(self) -> Mapping[str, TensorInfo]:
        return self._tensors

    @property
    def spec(self) -> ModelSpec:
        return self._spec

    def read(self, name: str) -> Tensor:
        if name in self._quantized:
            return self._quantized[name].read()
        placed = self._placed.get(name)
        if placed is None or name not in self._tensors:
            raise unknown_tensor(self._path, name, self._tensors)
        return make_placed_tensor(placed)

    @cached_property
    def generation(self) -> GenerationDefaults:
        configs = [self._config, self._config.get("text_config")]
        return read_generation(
            Fields(str(self._path / "generation_config.json"), self._load_optional("generation_config.json")),
            [Fields(str(self._path / "config.json"), config) for config in configs if isinstance(config, dict)],
            self._load_optional("tokenizer_config.json"),
            self._spec.vocab_size,
        )

    @property
    def has_tokenizer(self) -> bool:
        return (self._path / "tokenizer.json").is_file()

    @cached_property
    def tokenizer_source(self) -> HfTokenizerSource:
        tokenizer = self._path / "tokenizer.json"
        if not tokenizer.is_file():
            raise CheckpointError(
                f"{tokenizer}: is missing. Save the tokenizer again with a fast tokenizer of transformers to make it."
            )
        config = self._load_optional("tokenizer_config.json")
        templates = self._load_templates(config)
        return HfTokenizerSource(
            tokenizer_json=tokenizer,
            tokenizer_config=config,
            special_tokens=self._load_optional("special_tokens_map.json"),
            chat_template=templates.pop("default", None),
            chat_templates=templates,
        )

    def _load_templates(self, config: Mapping[str, Any]) -> dict[str, str]:
        """Templates by name, the places that win read last."""
        where = self._path / "tokenizer_config.json"
        processor = self._load_optional("chat_template.json")
        templates = _named_templates(processor.get("chat_template"), self._path / "chat_template.json")
        templates |= _named_templates(config.get("chat_template"), where)
        for path in sorted((self._path / "additional_chat_templates").glob("*.jinja")):
            templates[path.stem] = _load_text(path)
        main = self._path / "chat_template.jinja"
        if main.exists():
            templates["default"] = _load_text(main)
        return templates

    def _load_optional(self, name: str) -> dict[str, Any]:
        """A JSON file beside the model, or nothing where there is none."""
        path = self._path / name
        return load_object(path) if path.exists() else {}

    def close(self) -> None:
        for placed in self._placed.values():
            placed.file.close()
        for file in self._graph:
            file.close()


def _named_templates(value: Any, where: Path) -> dict[str, str]:
    """A template as text, or as a list of {name, template}."""
    if value is None:
        return {}
    if isinstance(value, str):
        return {"default": value}
    templates: dict[str, str] = {}
    for entry in value if isinstance(value, list) else [None]:
        if not isinstance(entry, Mapping) or not all(isinstance(entry.get(key), str) for key in ("name", "template")):
            raise CheckpointError(f"{where}: chat_template must be text or a list of objects with name and template.")
        templates[entry["name"]] = entry["template"]
    return templates


def _load_text(path: Path) -> str:
    file = MappedFile(path)
    if file.size > _MAX_TEMPLATE_BYTES:
        raise CheckpointError(f"{path}: has {file.size} bytes; a template has at most {_MAX_TEMPLATE_BYTES}.")
    try:
        return file.data.tobytes().decode("utf-8")
    except UnicodeDecodeError:
        raise CheckpointError(f"{path}: is not valid UTF-8.") from None
