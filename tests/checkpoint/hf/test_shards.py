"""Which files of a directory are the model. Hostile indices: tests/attacks/test_safetensors.py."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests.model_files import safetensors_of
from tests.pytorch_files import file_of, state_dict, tensor

from pelton.checkpoint.hf.shards import read_weights
from pelton.errors import CheckpointError

pytestmark = pytest.mark.unit

A, B = safetensors_of({"a": np.arange(3)}), safetensors_of({"b": np.arange(2)})


def write(directory: Path, **files: bytes) -> None:
    for name, raw in files.items():
        (directory / name.replace("__", ".")).write_bytes(raw)


def write_index(directory: Path, stem: str, weight_map: dict[str, str], metadata: object = None) -> None:
    index = {"weight_map": weight_map} if metadata is None else {"metadata": metadata, "weight_map": weight_map}
    (directory / f"{stem}.index.json").write_text(json.dumps(index))


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


def test_other_pickles_are_named_and_not_opened(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="has no weights"):
        read_weights(tmp_path)
    write(tmp_path, training_args__bin=b"x")
    with pytest.raises(CheckpointError, match=r"If training_args\.bin is the model, give its own path"):
        read_weights(tmp_path)


def pytorch_of(name: str) -> bytes:
    return file_of(state_dict({name: tensor()}))


def test_one_file_of_pytorch(tmp_path: Path) -> None:
    write(tmp_path, pytorch_model__bin=pytorch_of("a"), optimizer__pt=b"x", adapter_model__safetensors=B)
    assert list(read_weights(tmp_path)) == ["a"]


def test_an_index_of_pytorch(tmp_path: Path) -> None:
    write(tmp_path, one__bin=pytorch_of("a"), two__bin=pytorch_of("b"), stale__bin=b"x")
    write_index(tmp_path, "pytorch_model.bin", {"a": "one.bin", "b": "two.bin"})
    assert {name: placed.file.path.name for name, placed in read_weights(tmp_path).items()} == {
        "a": "one.bin",
        "b": "two.bin",
    }
    write(tmp_path, pytorch_model__bin=pytorch_of("a"))
    with pytest.raises(CheckpointError, match=r"has both pytorch_model\.bin and pytorch_model\.bin\.index\.json"):
        read_weights(tmp_path)


def test_an_index_of_pytorch_names_no_safetensors(tmp_path: Path) -> None:
    write(tmp_path, one__safetensors=A)
    write_index(tmp_path, "pytorch_model.bin", {"a": "one.safetensors"})
    with pytest.raises(CheckpointError, match=r"expected the bare name of a \.bin file"):
        read_weights(tmp_path)


def test_safetensors_win_and_it_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write(tmp_path, model__safetensors=A, pytorch_model__bin=b"x")
    with caplog.at_level("INFO", "pelton"):
        assert list(read_weights(tmp_path)) == ["a"]
    assert "PyTorch's files beside them are not" in caplog.text


def test_tied_weights_are_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write(tmp_path, pytorch_model__bin=file_of(state_dict({"a": tensor(), "b": tensor()})))
    with caplog.at_level("INFO", "pelton"):
        assert list(read_weights(tmp_path)) == ["a", "b"]
    assert "tied" in caplog.text


@pytest.mark.parametrize("name", ["x.safetensors", "x.bin", "x.pt", "x.pth"])
def test_a_file_by_its_path(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(A if name == "x.safetensors" else pytorch_of("a"))
    assert list(read_weights(tmp_path / name)) == ["a"]


def test_a_shard_by_its_path_is_refused(tmp_path: Path) -> None:
    write(tmp_path, one__safetensors=A, two__safetensors=B, other__safetensors=A)
    write_index(tmp_path, "model.safetensors", {"a": "one.safetensors", "b": "two.safetensors"})
    with pytest.raises(CheckpointError, match=r"is one of several files of a model\. Give the directory"):
        read_weights(tmp_path / "two.safetensors")
    assert list(read_weights(tmp_path / "other.safetensors")) == ["a"]


@pytest.mark.parametrize(
    ("metadata", "message"),
    [({"total_size": 19}, "total_size of the index is wrong"), ({"total_size": 20}, ""), ({}, ""), (None, "")],
)
def test_a_wrong_total_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, metadata: dict[str, int] | None, message: str
) -> None:
    write(tmp_path, one__safetensors=A, two__safetensors=B)
    write_index(tmp_path, "model.safetensors", {"a": "one.safetensors", "b": "two.safetensors"}, metadata)
    with caplog.at_level("INFO", "pelton"):
        read_weights(tmp_path)
    assert (message in caplog.text) if message else not caplog.text


@pytest.mark.parametrize(
    ("metadata", "message"),
    [([], "expected an object"), ({"total_size": "20"}, "number of bytes"), ({"total_size": -1}, "number of bytes")],
)
def test_a_total_that_is_none_is_refused(tmp_path: Path, metadata: object, message: str) -> None:
    write(tmp_path, one__safetensors=A)
    write_index(tmp_path, "model.safetensors", {"a": "one.safetensors"}, metadata)
    with pytest.raises(CheckpointError, match=message):
        read_weights(tmp_path)
