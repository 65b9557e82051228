"""Tensors in another container: nothing is interpreted, everything is compared."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from pelton.conversion.convert import Options, Progress, convert
from pelton.conversion.copy_container import check_copy, copy_container
from pelton.errors import CheckpointError

pytestmark = pytest.mark.unit


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A model that nothing here can run, of many types."""
    path = tmp_path / "source"
    (path / "1_Pooling").mkdir(parents=True)
    (path / "config.json").write_text(json.dumps({"architectures": ["BertModel"], "model_type": "bert"}))
    (path / "modules.json").write_text("[]")
    (path / "1_Pooling" / "config.json").write_text("{}")
    tensors = {
        "embeddings.weight": torch.arange(12.0).reshape(3, 4),
        "ids": torch.arange(5),
        "packed": torch.arange(8, dtype=torch.uint8),
        "half": torch.ones(2, 3, dtype=torch.float16),
        "eight": torch.ones(4, dtype=torch.float8_e4m3fn),
        "scalar": torch.tensor(2.5),
        "none": torch.zeros(0, 3),
    }
    save_file(tensors, path / "model.safetensors", metadata={"format": "pt"})
    return path


def test_every_tensor_and_file_is_there(source: Path, tmp_path: Path) -> None:
    ledger = convert(source, tmp_path / "copy", "safetensors", Options(), Progress())
    assert [loss["field"] for loss in ledger["losses"]] == ["model"]
    assert ledger["model"] is None
    assert set(ledger["source"]["files"]) == {
        "model.safetensors",
        "config.json",
        "modules.json",
        "1_Pooling/config.json",
    }
    before, after = load_file(source / "model.safetensors"), load_file(tmp_path / "copy" / "model.safetensors")
    assert before.keys() == after.keys()
    for name in before:
        assert (before[name].dtype, before[name].shape) == (after[name].dtype, after[name].shape)
        assert torch.equal(before[name].reshape(-1).view(torch.uint8), after[name].reshape(-1).view(torch.uint8))
    assert (tmp_path / "copy" / "1_Pooling" / "config.json").read_text() == "{}"


def test_what_cannot_be_compared_is_refused_if_strict(source: Path, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="only tensors and files are compared"):
        convert(source, tmp_path / "copy", "safetensors", Options(strict=True), Progress())


def test_damage_on_the_way_is_found(source: Path) -> None:
    output = copy_container(source)
    check_copy(output, source)
    path = source / "model.safetensors"
    tensors = load_file(path)
    output.tensors[0] = type(output.tensors[0])(
        output.tensors[0].name, output.tensors[0].shape, output.tensors[0].scheme, lambda: np.zeros((1, 48), np.uint8)
    )
    with pytest.raises(CheckpointError, match="reads back other than it was written"):
        check_copy(output, source)
    save_file({"ids": tensors["ids"]}, path)
    with pytest.raises(CheckpointError, match="was written with 1 tensors; expected 7"):
        check_copy(output, source)


def test_pytorch_there_and_back_is_the_same(source: Path, tmp_path: Path) -> None:
    convert(source, tmp_path / "bin", "pytorch", Options(max_shard_bytes=40), Progress())
    assert (tmp_path / "bin" / "pytorch_model.bin.index.json").exists()
    convert(tmp_path / "bin", tmp_path / "back", "safetensors", Options(), Progress())
    before, after = load_file(source / "model.safetensors"), load_file(tmp_path / "back" / "model.safetensors")
    assert before.keys() == after.keys()
    for name in before:
        assert before[name].dtype == after[name].dtype
        assert torch.equal(before[name].reshape(-1).view(torch.uint8), after[name].reshape(-1).view(torch.uint8))
    loaded = torch.load(next((tmp_path / "bin").glob("*-00001-*.bin")), weights_only=True)
    assert set(loaded) <= before.keys()


def test_views_and_tied_weights_of_pytorch_become_plain_tensors(tmp_path: Path) -> None:
    base = torch.arange(12.0).reshape(3, 4)
    torch.save({"a": base, "b": base.T, "c": base[1:]}, tmp_path / "x.pth")
    ledger = convert(tmp_path / "x.pth", tmp_path / "out", "safetensors", Options(), Progress())
    assert set(ledger["source"]["files"]) == {"x.pth"}
    loaded = load_file(tmp_path / "out" / "model.safetensors")
    assert torch.equal(loaded["a"], base)
    assert torch.equal(loaded["b"], base.T)
    assert torch.equal(loaded["c"], base[1:])
