"""The files of a Hugging Face directory beside its weights: which are carried along, and which are left, and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from pelton.checkpoint.mapped_file import MappedFile

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
_WEIGHTS: Final = (
    ".safetensors",
    ".safetensors.index.json",
    ".bin",
    ".bin.index.json",
    ".pth",
    ".pt",
    ".gguf",
    ".onnx",
)
_MAX_BYTES: Final = 256 << 20
TEMPLATES: Final = "additional_chat_templates"


def read_carried(directory: Path) -> dict[str, bytes]:
    """Contents of the files that go with the model, by their path in the directory."""
    return {name: MappedFile(directory / name).data.tobytes() for name in _list_carried(directory)}


def _list_carried(directory: Path) -> Iterator[str]:
    for path in sorted(directory.iterdir()):
        if path.name in _CARRIED and path.is_file() and 0 < path.stat().st_size <= _MAX_BYTES:
            yield path.name
    for path in sorted((directory / TEMPLATES).glob("*.jinja")):
        yield f"{TEMPLATES}/{path.name}"


def is_adapter(name: str) -> bool:
    """Whether a file holds changes to the weights beside it."""
    return name.startswith("adapter_model.")


def list_left(directory: Path, carried: Mapping[str, bytes]) -> dict[str, str]:
    """Files that are not carried along, and why."""
    left: dict[str, str] = {}
    for path in sorted(directory.rglob("*")):
        name = path.relative_to(directory).as_posix()
        if is_adapter(name):
            left[name] = "an adapter, which is not merged; without it the model is another one"
            continue
        if path.is_dir() or name in carried or name.endswith(_WEIGHTS) or name == "conversion.json":
            continue
        if path.suffix == ".py":
            left[name] = "code, which is never run and never carried"
        else:
            left[name] = "says nothing about the model that a target could carry"
    return left
