"""The files of a Hugging Face directory beside its weights: which are carried along, and which are left, and why."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Final

from pelton.checkpoint.fields import short
from pelton.checkpoint.mapped_file import MappedFile
from pelton.errors import CheckpointError

# Everything that says something about the model, its texts or its terms.
_CARRIED: Final = frozenset(
    {
        "config.json",
        "generation_config.json",
        "tokenizer.json",
        "tokenizer_config.json",
        "special_tokens_map.json",
        "added_tokens.json",
        "vocab.json",
        "merges.txt",
        "tokenizer.model",
        "chat_template.jinja",
        "chat_template.json",
        "preprocessor_config.json",
        "processor_config.json",
        "README.md",
        "LICENSE",
        "LICENSE.txt",
        "LICENSE.md",
        "NOTICE",
        "USE_POLICY.md",
    }
)
_WEIGHTS: Final = (".safetensors", ".bin", ".pth", ".pt", ".gguf", ".onnx", ".ckpt", ".h5", ".msgpack")
_INDEX: Final = ".index.json"
_CODE: Final = (".py", ".pyc", ".so", ".sh", ".dll", ".exe")
_OWN: Final = frozenset({"conversion.json", "pelton.gguf.blocks"})
_MAX_BYTES: Final = 256 << 20
_MAX_NAME: Final = 255
_MAX_DEPTH: Final = 3
TEMPLATES: Final = "additional_chat_templates"


def directory_of(path: Path) -> Path:
    """Where the files beside the weights are; `path` is that directory, or the weights themselves."""
    return path if path.is_dir() else path.parent


def read_carried(directory: Path) -> dict[str, bytes]:
    """Contents of the files that go with the model, by their path in the directory."""
    names = (name for name in _list_names(directory) if name in _CARRIED or _is_template(name))
    return {name: _read(directory / name) for name in names if _find_reason(directory, name) is None}


def select_carried(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """Those of `files` that `read_carried` would find."""
    return {name: raw for name, raw in files.items() if name in _CARRIED or _is_template(name)}


def is_adapter(name: str) -> bool:
    """Whether a file holds changes to the weights beside it."""
    return name.startswith("adapter_model.")


def read_all(directory: Path) -> dict[str, bytes]:
    """Contents of all files but weights and code: what a copy in another container has beside its tensors."""
    return {name: _read(directory / name) for name in _list_names(directory) if _find_reason(directory, name) is None}


def list_left(directory: Path, carried: Mapping[str, bytes], weights: Collection[Path]) -> dict[str, str]:
    """Files that are not carried along, and why. `weights` are those that hold the model."""
    used = {path.name for path in weights if path.parent == directory}
    left: dict[str, str] = {}
    for name in _list_names(directory):
        if name in carried or name in used or name in _OWN or (name.endswith(_INDEX) and "/" not in name):
            continue
        left[name] = _find_reason(directory, name) or "says nothing about the model that the target could carry"
    return left


def check_file_name(name: str, source: str) -> None:
    """Raise CheckpointError for a name that a file of a target must not have: nothing is written outside of it.

    Names come from files that strangers made: keys of a GGUF, and templates that are named in it.
    """
    parts = name.split("/")
    is_plain = all(part.isprintable() and not set(part) & set('\\:*?"<>|') for part in parts)
    is_short = len(parts) <= _MAX_DEPTH and all(0 < len(part.encode()) <= _MAX_NAME for part in parts)
    is_other = name.endswith((*_CODE, *_WEIGHTS, _INDEX)) or name in _OWN
    if not is_plain or not is_short or is_other or any(part.startswith(".") for part in parts):
        raise CheckpointError(
            f"{source}: carries a file called {short(name)}, which will not be written: expected a plain name below "
            "the model's directory that is neither code nor weights. Remove it from the source."
        )


def _list_names(directory: Path) -> Iterator[str]:
    """Files below the directory, but nothing hidden."""
    for path in sorted(directory.rglob("*")):
        name = path.relative_to(directory)
        if not any(part.startswith(".") for part in name.parts) and not path.is_dir():
            yield name.as_posix()


def _is_template(name: str) -> bool:
    return name.startswith(f"{TEMPLATES}/") and name.endswith(".jinja") and name.count("/") == 1


def _find_reason(directory: Path, name: str) -> str | None:
    """Why a file cannot be carried, if it cannot."""
    if name.endswith(_CODE):
        return "code, which is never run and never carried"
    if is_adapter(name):
        return "an adapter, which is not merged; without it the model is another one"
    if name.endswith((*_WEIGHTS, _INDEX)):
        return "weights that are not those of this model"
    if name in _OWN:
        return "belongs to this form of the model"
    path = directory / name
    if leads_out(path, directory):
        return "a link that leads out of the directory"
    if not path.is_file() or not 0 < path.stat().st_size <= _MAX_BYTES:
        return "is empty, or too large for a text"
    return None


def leads_out(path: Path, directory: Path) -> bool:
    """Whether a file is a link to outside of the directory, and of the cache of downloads that it belongs to."""
    roots = [directory.resolve()]
    if directory.absolute().parent.name == "snapshots":
        roots.append((directory.absolute().parent.parent / "blobs").resolve())
    return not any(path.resolve().is_relative_to(root) for root in roots)


def _read(path: Path) -> bytes:
    return MappedFile(path).data.tobytes()
