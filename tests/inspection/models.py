"""Tiny models for inspections: made whole, then damaged in one place."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from tests.fakes import TinyModel, write_safetensors

from pelton.inspection.report import Report, make_report
from pelton.inspection.subject import open_subject
from pelton.tokenization.chat_template import TemplateWorker
from pelton.tokenization.pre_tokenizer import PRE_TOKENIZERS

WORKER = TemplateWorker()  # one for all tests: its process ends with theirs
Tensors = dict[str, npt.NDArray[np.float32]]


def write(
    directory: Path,
    architecture: str = "LlamaForCausalLM",
    *,
    config: Mapping[str, Any] | None = None,
    tensors: Callable[[Tensors], None] = lambda _: None,
) -> Path:
    """The directory of a tiny model with other fields (None: without that field) and other tensors."""
    model = TinyModel(architecture=architecture)
    model.write(directory)
    change(directory / "config.json", config or {})
    arrays = model.tensors()
    tensors(arrays)
    write_safetensors(directory / "model.safetensors", arrays)
    return directory


def change(path: Path, fields: Mapping[str, Any]) -> None:
    """Set fields of a JSON file, which need not exist; None takes one away."""
    document = json.loads(path.read_text()) if path.exists() else {}
    document |= fields
    path.write_text(json.dumps({name: value for name, value in document.items() if value is not None}))


def as_rows(array: npt.NDArray[np.float32]) -> npt.NDArray[np.uint8]:
    """What an outgoing tensor of float32 gives."""
    return np.ascontiguousarray(array, "<f4").reshape(-1, array.shape[-1]).view(np.uint8)


def inspect(path: Path) -> Report:
    """`report.inspect` without a process of its own."""
    subject = open_subject(path)
    try:
        return make_report(subject, WORKER)
    finally:
        subject.close()


def found(path: Path) -> set[str]:
    """The ids of everything that an inspection finds."""
    return ids(inspect(path))


def ids(report: Report) -> set[str]:
    return {finding.id for finding in report.findings}


def shard(directory: Path, *, total_size: int | None = None) -> None:
    """Cut model.safetensors into two shards and an index."""
    tensors = TinyModel().tensors()
    (directory / "model.safetensors").unlink()
    names = list(tensors)
    weight_map = {}
    for number, part in enumerate((names[:10], names[10:])):
        file = f"model-0000{number + 1}-of-00002.safetensors"
        write_safetensors(directory / file, {name: tensors[name] for name in part})
        weight_map |= dict.fromkeys(part, file)
    size = sum(4 * array.size for array in tensors.values()) if total_size is None else total_size
    index = {"metadata": {"total_size": size}, "weight_map": weight_map}
    (directory / "model.safetensors.index.json").write_text(json.dumps(index))


def pre_tokenizer(name: str) -> dict[str, Any]:
    """What a tokenizer.json has to cut words as the models of a GGUF name do."""
    steps: list[dict[str, Any]] = [
        {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
        for pattern in PRE_TOKENIZERS[name].patterns
    ]
    steps.append({"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False})
    return {"type": "Sequence", "pretokenizers": steps}
