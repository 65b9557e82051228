"""What a path may be, and what is said of every other path."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests.model_files import llama_gguf, safetensors_of
from tests.pytorch_files import file_of

from pelton.checkpoint.checkpoint import open_checkpoint
from pelton.errors import CheckpointError

pytestmark = pytest.mark.unit


def test_a_gguf_file_and_a_directory_with_one(tmp_path: Path) -> None:
    (tmp_path / "x.gguf").write_bytes(llama_gguf())
    for path in (tmp_path / "x.gguf", tmp_path):
        with open_checkpoint(path) as checkpoint:
            assert checkpoint.naming == "gguf"
            assert checkpoint.path == tmp_path / "x.gguf"


def test_a_directory_with_a_configuration(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"architectures": ["LlamaForCausalLM"]}))
    (tmp_path / "model.safetensors").write_bytes(safetensors_of({"a": np.zeros(2)}))
    (tmp_path / "x.gguf").write_bytes(b"")  # a configuration wins
    with open_checkpoint(tmp_path) as checkpoint:
        assert checkpoint.naming == "hf"
        assert checkpoint.spec.architecture == "llama"


@pytest.mark.parametrize("name", ["any.safetensors", "any.bin", "any.pt", "any.pth"])
def test_weights_beside_a_configuration(tmp_path: Path, name: str) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"architectures": ["LlamaForCausalLM"]}))
    (tmp_path / "pytorch_model.bin").write_bytes(b"another one")
    raw = safetensors_of({"a": np.zeros(6)}) if name == "any.safetensors" else file_of()
    (tmp_path / name).write_bytes(raw)
    with open_checkpoint(tmp_path / name) as checkpoint:
        assert (checkpoint.path, list(checkpoint.tensors)) == (tmp_path / name, ["a"])
        assert [file.path.name for file in checkpoint.files] == [name]


def test_checksums_may_be_left_out(tmp_path: Path) -> None:
    raw = file_of()
    at = raw.index(bytes(range(24)))
    (tmp_path / "x.bin").write_bytes(raw[:at] + bytes(24) + raw[at + 24 :])
    (tmp_path / "config.json").write_text(json.dumps({"architectures": ["LlamaForCausalLM"]}))
    with open_checkpoint(tmp_path / "x.bin") as checkpoint, pytest.raises(CheckpointError, match="has the checksum"):
        assert checkpoint.read("a").payload.size
    with open_checkpoint(tmp_path / "x.bin", checks_sums=False) as checkpoint:
        assert not checkpoint.read("a").payload.any()


def test_paths_that_are_no_checkpoint(tmp_path: Path) -> None:
    cases = [(tmp_path / "none", "there is no such file or directory"), (tmp_path, "there is no model in it")]
    cases.append((Path("a\x00b"), "there is no such file|cannot be opened"))
    for path, message in cases:
        with pytest.raises(CheckpointError, match=message):
            open_checkpoint(path)
    (tmp_path / "model.safetensors").write_bytes(b"x")
    with pytest.raises(CheckpointError, match=r"is only the weights\. Put the config\.json"):
        open_checkpoint(tmp_path / "model.safetensors")
    (tmp_path / "notes.txt").write_text("hello, this is not a model")
    with pytest.raises(CheckpointError, match="not a GGUF file"):
        open_checkpoint(tmp_path / "notes.txt")


def test_several_gguf_files_are_not_chosen_from(tmp_path: Path) -> None:
    for name in ("b.gguf", "a.gguf"):
        (tmp_path / name).write_bytes(llama_gguf())
    with pytest.raises(CheckpointError, match=r"has 2 \.gguf files\. Give the path of one: a\.gguf"):
        open_checkpoint(tmp_path)
