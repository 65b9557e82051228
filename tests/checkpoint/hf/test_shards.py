"""Which files of a directory are the model. Hostile indices: tests/attacks/test_safetensors.py."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests.model_files import safetensors_of

from pelton.checkpoint.hf.shards import read_weights
from pelton.errors import CheckpointError

pytestmark = pytest.mark.unit

A, B = safetensors_of({"a": np.arange(3)}), safetensors_of({"b": np.arange(2)})


def write(directory: Path, **files: bytes) -> None:
    for name, raw in files.items():
        (directory / name.replace("__", ".")).write_bytes(raw)


def test_one_file(tmp_path: Path) -> None:
    write(tmp_path, model__safetensors=A, adapter_model__safetensors=B)
    assert list(read_weights(tmp_path)) == ["a"]


def test_one_file_of_another_name(tmp_path: Path) -> None:
    write(tmp_path, weights__safetensors=A)
    assert list(read_weights(tmp_path)) == ["a"]


def test_an_index_and_nothing_beside_it(tmp_path: Path) -> None:
    write(tmp_path, one__safetensors=A, two__safetensors=B, stale__safetensors=A)
    index = {"metadata": {"total_size": 1}, "weight_map": {"a": "one.safetensors", "b": "two.safetensors"}}
    write(tmp_path, model__safetensors__index__json=json.dumps(index).encode())
    assert {name: placed.file.path.name for name, placed in read_weights(tmp_path).items()} == index["weight_map"]


def test_several_files_without_an_index_are_refused(tmp_path: Path) -> None:
    write(tmp_path, one__safetensors=A, two__safetensors=B)
    with pytest.raises(CheckpointError, match="has 2 safetensors files and no"):
        read_weights(tmp_path)


def test_pickles_are_named_and_not_opened(tmp_path: Path) -> None:
    write(tmp_path, pytorch_model__bin=b"x")
    with pytest.raises(CheckpointError, match=r"pytorch_model\.bin is a pickle, which is never opened"):
        read_weights(tmp_path)
    (tmp_path / "pytorch_model.bin").unlink()
    with pytest.raises(CheckpointError, match="has no weights"):
        read_weights(tmp_path)
