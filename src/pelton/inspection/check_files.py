"""What lies beside a model: what is ignored and why, and what of it may be a mistake. Reads names, sizes and ends."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np

from pelton.checkpoint.mapped_file import MappedFile
from pelton.checkpoint.strict_json import load_object
from pelton.conversion.ledger import LEDGER
from pelton.conversion.restore import SIDE_FILE
from pelton.errors import CheckpointError
from pelton.inspection.finding import Finding
from pelton.inspection.scan import listed
from pelton.inspection.subject import Subject

_READ = {
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "chat_template.jinja",
    "chat_template.json",
    "model.safetensors.index.json",
    "pytorch_model.bin.index.json",
    "genai_config.json",
}
_WEIGHTS = {".safetensors", ".gguf", ".onnx", ".bin", ".pt", ".pth", ".ckpt", ".h5", ".msgpack", ".npz", ".data"}
_PICKLES = {"training_args.bin", "optimizer.pt", "optimizer.bin", "scheduler.pt", "rng_state.pth", "scaler.pt"}
_ADAPTERS = {"adapter_config.json", "adapter_model.safetensors", "adapter_model.bin"}
_CODE = {".py", ".so", ".dll", ".dylib", ".sh"}
_PARTIAL = (".incomplete", ".part", ".partial", ".crdownload", ".aria2", ".download")
_TEXT = {
    ".md": "text for people",
    ".txt": "text for people",
    ".png": "a picture",
    ".jpg": "a picture",
    ".jpeg": "a picture",
    ".gif": "a picture",
    ".svg": "a picture",
    ".pdf": "text for people",
    ".csv": "data",
    "": "text for people",
}
_VOCABULARIES = {
    "tokenizer.model": "tokenizer.json is read",
    "vocab.json": "tokenizer.json is read",
    "merges.txt": "tokenizer.json is read",
    "added_tokens.json": "tokenizer.json is read",
    "tekken.json": "tokenizer.json is read",
    "vocab.txt": "tokenizer.json is read",
}
_LFS = b"version https://git-lfs.github.com/spec"
_INDICES = {"safetensors": "model.safetensors.index.json", "pytorch": "pytorch_model.bin.index.json"}
_TAIL_BYTES = 1 << 16
_MAPPED = {".safetensors", ".gguf", ".bin", ".onnx", ".data"}


@dataclass(frozen=True, slots=True)
class Ignored:
    """Something that is there and has no effect."""

    what: str
    why: str


def split_files(subject: Subject) -> tuple[set[str], list[Ignored]]:
    """Names of the files that are read, and why the others are not."""
    used = set(subject.weight_names)
    if subject.directory is None:
        return set(subject.names), []
    reasons: dict[str, list[str]] = {}
    for name in subject.names:
        reason = _why_ignored(name, used, subject)
        if reason is None:
            used.add(name)
        else:
            reasons.setdefault(reason, []).append(name)
    return used, [Ignored(listed(names, 6), why) for why, names in reasons.items()]


def _why_ignored(name: str, used: Iterable[str], subject: Subject) -> str | None:
    path = PurePosixPath(name)
    suffix = path.suffix.lower()
    if name in used:
        return None
    if subject.format == "gguf":
        return "everything is in the GGUF file"
    if name in _READ or (path.parent.name == "additional_chat_templates" and suffix == ".jinja"):
        return None
    if path.name in _ADAPTERS:
        return "an adapter is not applied"
    if suffix in _CODE:
        return "code of a model is never run"
    if path.name in _PICKLES:
        return "a pickle of training, never opened"
    if suffix in _WEIGHTS:
        return "not among the weights of this model"
    if name in (LEDGER, SIDE_FILE):
        return "of pelton convert, for verification and the way back"
    if path.name in _VOCABULARIES:
        return _VOCABULARIES[path.name]
    if len(path.parts) > 1:
        return "in a folder of its own"
    return _TEXT.get(suffix, "not a file that a text model needs")


def check_files(subject: Subject) -> list[Finding]:
    """What is suspicious about the files themselves."""
    findings = [*_check_ends(subject)]
    directory = subject.directory
    if directory is None:
        return findings
    findings += _check_strangers(subject, directory)
    index = directory / _INDICES.get(subject.format, "")
    if index.is_file():
        findings += _check_total(subject, index)
    return findings


def _check_strangers(subject: Subject, directory: Path) -> list[Finding]:
    used, _ = split_files(subject)
    top = [name for name in subject.names if "/" not in name]
    weights = [n for n in top if PurePosixPath(n).suffix in _WEIGHTS and n not in used | _PICKLES | _ADAPTERS]
    suffix = {"safetensors": ".safetensors", "pytorch": ".bin"}.get(subject.format, "?")
    same = [name for name in weights if name.endswith(suffix)]
    groups: Mapping[str, list[str]] = {
        "files.stale-weights": same if subject.checkpoint is not None else [],
        "files.other-format": [n for n in weights if n not in same] if subject.checkpoint is not None else [],
        "files.adapter": [name for name in top if name in _ADAPTERS],
        "files.code": [name for name in subject.names if PurePosixPath(name).suffix in _CODE],
        "files.pickle": [name for name in subject.names if PurePosixPath(name).name in _PICKLES],
        "files.partial": [name for name in subject.names if name.endswith(_PARTIAL)] + _unfinished(directory),
    }
    says = {
        "files.stale-weights": "not named by the index, or not the model's file",
        "files.other-format": "weights of another format",
        "files.adapter": "an adapter, whose changes are not part of the answers",
        "files.code": "program code",
        "files.pickle": "pickled objects",
        "files.partial": "what a download leaves that was not finished",
    }
    return [Finding(id, f"{listed(names)}: {says[id]}.") for id, names in groups.items() if names]


def _unfinished(directory: Path) -> list[str]:
    folder = directory / ".cache" / "huggingface" / "download"
    return [path.name for path in sorted(folder.glob("*.incomplete"))] if folder.is_dir() else []


def _check_ends(subject: Subject) -> list[Finding]:
    """Pointers in the place of files, and weight files whose last bytes are zeros."""
    found: dict[str, list[str]] = {}
    for name in subject.names:
        try:
            kind = _judge_end(subject.root / name)
        except (OSError, CheckpointError):
            kind = "unreadable"
        found.setdefault(kind, []).append(name)
    kib = _TAIL_BYTES >> 10
    says = {
        "files.lfs-pointer": "only a pointer to the file's content",
        "files.holes": "not all of it was ever written",
        "files.zero-tail": f"the last {kib} KiB are zeros",
    }
    return [Finding(id_, f"{listed(found[id_])}: {what}.") for id_, what in says.items() if id_ in found]


def _judge_end(path: Path) -> str:
    """The finding that a file deserves, or nothing. Raises OSError and CheckpointError where it cannot be read."""
    size = path.stat().st_size
    if size and size < 1024 and _begins(path, _LFS):
        return "files.lfs-pointer"
    if path.suffix not in _MAPPED or not size:
        return ""
    if has_holes(path, size):
        return "files.holes"
    return "files.zero-tail" if size >= 2 * _TAIL_BYTES and not _last_bytes(path).any() else ""


def has_holes(path: Path, size: int) -> bool:
    """Whether the file system knows of a part that was never written. Always false where it keeps no such account."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        return os.lseek(descriptor, 0, os.SEEK_HOLE) < size
    except OSError:
        return False
    finally:
        os.close(descriptor)


def _begins(path: Path, with_bytes: bytes) -> bool:
    with path.open("rb") as file:
        return file.read(len(with_bytes)) == with_bytes


def _last_bytes(path: Path) -> np.ndarray:
    return MappedFile(path).data[-_TAIL_BYTES:]


def _check_total(subject: Subject, index: Path) -> list[Finding]:
    """`total_size` of an index is often wrong and never needed."""
    try:
        metadata = load_object(index).get("metadata")
    except CheckpointError:
        return []
    claimed = metadata.get("total_size") if isinstance(metadata, Mapping) else None
    actual = subject.checkpoint.weight_bytes if subject.checkpoint is not None else 0
    if not isinstance(claimed, int) or not actual or claimed == actual:
        return []
    return [Finding("files.total-size", f"{index.name} says {claimed:,} bytes and the tensors have {actual:,}.")]
