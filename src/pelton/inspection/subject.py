"""A path as it is, each part of it read on its own: what one reader refuses does not hide what another one can say.

Invariant: opening never raises for what is wrong with a model; refusals are kept, in the readers' own words. Headers
and small documents are read, tensors are mapped. Nothing is executed and no file outside the path is looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar

from pelton.checkpoint.checkpoint import open_checkpoint
from pelton.checkpoint.contract import Checkpoint, TensorInfo
from pelton.checkpoint.gguf.checkpoint import GgufCheckpoint
from pelton.checkpoint.gguf.container import Value, read_container
from pelton.checkpoint.gguf.parts import read_model
from pelton.checkpoint.hf.checkpoint import HfCheckpoint
from pelton.checkpoint.hf.safetensors import read_safetensors
from pelton.checkpoint.hf.shards import WEIGHT_SUFFIXES, read_weights
from pelton.checkpoint.onnx.weights import SUFFIXES as ONNX_SUFFIXES
from pelton.checkpoint.placed_tensor import PlacedTensor
from pelton.checkpoint.pytorch.weights import SUFFIXES as PYTORCH_SUFFIXES
from pelton.checkpoint.pytorch.weights import read_pytorch
from pelton.checkpoint.strict_json import load_object
from pelton.checkpoint.weight import Tensor
from pelton.errors import CheckpointError, ConfigError

Format = Literal["safetensors", "gguf", "pytorch", "onnx", "unknown"]
DOCUMENTS = ("config.json", "generation_config.json", "tokenizer_config.json", "special_tokens_map.json")
T = TypeVar("T")


@dataclass(slots=True, kw_only=True)
class Subject:
    """What could be opened of a path. `refusals` are the reasons why it cannot be served, the first one first."""

    path: Path
    format: Format
    checkpoint: Checkpoint | None = None
    refusals: list[str] = field(default_factory=list)
    tensors: Mapping[str, TensorInfo] = field(default_factory=dict)
    documents: dict[str, dict[str, Any]] = field(default_factory=dict)  # by file name, those that are there
    metadata: Mapping[str, Value] = field(default_factory=dict)  # of a GGUF file
    raw: Mapping[str, Callable[[], Tensor]] = field(default_factory=dict)  # of a refused model: tensors as they lie
    parsed: dict[str, Any] | None = None  # see `pipeline`
    weight_names: frozenset[str] = frozenset()  # files that hold its tensors
    names: tuple[str, ...] = ()  # every file below the directory, relative; of a model in files alone, these

    @property
    def directory(self) -> Path | None:
        """Where the model's files are, if it has a directory of its own; that of weights with config.json beside."""
        if self.path.is_dir():
            return self.path
        is_beside = self.path.suffix in WEIGHT_SUFFIXES and (self.path.parent / "config.json").is_file()
        return self.path.parent if is_beside else None

    @property
    def root(self) -> Path:
        """What `names` are relative to."""
        return self.directory or self.path.parent

    @property
    def config(self) -> dict[str, Any]:
        return self.documents.get("config.json", {})

    @property
    def pipeline(self) -> dict[str, Any]:
        """tokenizer.json, parsed once; empty where there is none. What is wrong with it is told when it is built."""
        if self.parsed is None:
            path = self.root / "tokenizer.json"
            try:
                self.parsed = load_object(path) if self.directory is not None and path.is_file() else {}
            except CheckpointError:
                self.parsed = {}
        return self.parsed

    def attempt(self, action: Callable[[], T]) -> T | None:
        """The result of `action`, or None and its refusal kept."""
        try:
            return action()
        except (CheckpointError, ConfigError) as error:
            if str(error) not in self.refusals:
                self.refusals.append(str(error))
            return None

    def read(self, name: str) -> Tensor:
        """A tensor, of a refused model too. Raises CheckpointError where there are no bytes to be had."""
        if self.checkpoint is not None:
            return self.checkpoint.read(name)
        return self.raw[name]()

    def close(self) -> None:
        """Let go of the files."""
        if self.checkpoint is not None:
            self.checkpoint.close()


def open_subject(path: Path) -> Subject:
    """Open what can be opened. Raises ConfigError only where there is nothing at `path` at all."""
    if not path.exists():
        raise ConfigError(f"{path}: there is no such file or directory. Give the path of a model, or a name of one.")
    try:
        subject = Subject(path=path, format=find_format(path))
        directory = subject.directory
        subject.names = list_files(directory or path)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be looked into: {error.strerror}. Ask its owner for access.") from error
    for name in DOCUMENTS if directory is not None else ():
        document_path = subject.root / name
        if document_path.is_file():
            document = subject.attempt(lambda place=document_path: load_object(place))  # type: ignore[misc]
            subject.documents[name] = document or {}
    subject.checkpoint = subject.attempt(lambda: open_checkpoint(path, checks_sums=False))
    if subject.checkpoint is None:
        _read_what_is_left(subject)
        return subject
    subject.tensors = subject.checkpoint.tensors
    subject.weight_names = frozenset(file.path.name for file in subject.checkpoint.files)
    if directory is None:
        subject.names = tuple(file.path.name for file in subject.checkpoint.files)  # all parts of a split one
    if isinstance(subject.checkpoint, GgufCheckpoint):
        subject.metadata = subject.checkpoint.metadata
    elif isinstance(subject.checkpoint, HfCheckpoint):
        suffixes = {file.path.suffix for file in subject.checkpoint.files}
        subject.format = "pytorch" if suffixes & set(PYTORCH_SUFFIXES) else "safetensors"
        if suffixes & set(ONNX_SUFFIXES):
            subject.format = "onnx"
    return subject


def find_format(path: Path) -> Format:
    """By what is there, as `open_checkpoint` tells it."""
    if path.is_dir():
        suffixes = {entry.suffix for entry in path.iterdir() if entry.is_file()}
        if (path / "genai_config.json").exists() or (".onnx" in suffixes and ".safetensors" not in suffixes):
            return "onnx"
        if not (path / "config.json").exists() and suffixes & {".gguf"}:
            return "gguf"
        if suffixes & {".safetensors"}:
            return "safetensors"
        return "pytorch" if suffixes & {".bin", ".pt", ".pth"} else "unknown"
    by_suffix: dict[str, Format] = {".gguf": "gguf", ".safetensors": "safetensors", ".onnx": "onnx"}
    by_suffix |= dict.fromkeys((".bin", ".pt", ".pth", ".ckpt"), "pytorch")
    return by_suffix.get(path.suffix, "unknown")


def list_files(path: Path, limit: int = 10_000) -> tuple[str, ...]:
    """Names of files below `path`, two levels deep, sorted; hidden directories are not entered."""
    if not path.is_dir():
        return (path.name,)
    names = []
    for entry in sorted(path.iterdir())[:limit]:
        if entry.is_file():
            names.append(entry.name)
        elif entry.is_dir() and not entry.name.startswith("."):
            names += [f"{entry.name}/{inner.name}" for inner in sorted(entry.iterdir())[:limit] if inner.is_file()]
    return tuple(names)


def _read_what_is_left(subject: Subject) -> None:
    """Tensors and metadata of a model that was refused as a whole."""
    path = subject.path
    if subject.format in ("safetensors", "pytorch"):
        placed = subject.attempt(lambda: read_weights(path))
        if placed is None and not path.is_dir():
            read = read_safetensors if subject.format == "safetensors" else read_pytorch
            placed = subject.attempt(lambda: read(path))
        subject.tensors = {name: tensor.info for name, tensor in (placed or {}).items()}
        subject.raw = {name: partial(_read_placed, tensor) for name, tensor in (placed or {}).items()}
        subject.weight_names = frozenset(tensor.file.path.name for tensor in (placed or {}).values())
    elif subject.format == "gguf":
        file = next(iter(sorted(path.glob("*.gguf"))), path) if path.is_dir() else path
        container = subject.attempt(lambda: read_model(file)) or subject.attempt(lambda: read_container(file))
        if container is not None:
            subject.metadata = container.metadata
            subject.weight_names = frozenset(part.path.name for part in container.files)
            subject.tensors = {name: tensor.info for name, tensor in container.tensors.items()}
            places = {name: PlacedTensor(at.info, at.file, at.offset) for name, at in container.tensors.items()}
            subject.raw = {name: partial(_read_placed, tensor) for name, tensor in places.items()}


def _read_placed(tensor: PlacedTensor) -> Tensor:
    return Tensor(tensor.info.name, tensor.info.shape, tensor.info.scheme, tensor.rows())
