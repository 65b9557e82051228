from functools import partial
from pathlib import Path

import numpy as np
import pytest
from tests.checkpoint.gguf.test_parts import write as write_parts
from tests.fakes import TinyModel
from tests.inspection.models import as_rows, shard, write
from tests.model_files import llama_gguf, safetensors_of

from pelton.checkpoint.outgoing import Outgoing
from pelton.checkpoint.pytorch.writer import write_pytorch
from pelton.errors import ConfigError
from pelton.inspection.subject import find_format, list_files, open_subject

pytestmark = pytest.mark.unit
ARRAYS = TinyModel().tensors()


def test_a_sound_model(tmp_path: Path) -> None:
    subject = open_subject(write(tmp_path))
    assert (subject.format, subject.refusals) == ("safetensors", [])
    assert subject.checkpoint is not None
    assert subject.config["architectures"] == ["LlamaForCausalLM"]
    subject.close()


def test_what_one_reader_refuses_does_not_hide_the_rest(tmp_path: Path) -> None:
    subject = open_subject(write(tmp_path, config={"strange": 1}))
    assert subject.checkpoint is None
    assert len(subject.refusals) == 1
    assert "'strange'" in subject.refusals[0]
    assert len(subject.tensors) == 39


def test_weights_alone(tmp_path: Path) -> None:
    path = tmp_path / "some.safetensors"
    path.write_bytes(safetensors_of({"a": np.zeros((2, 3))}))
    subject = open_subject(path)
    assert subject.checkpoint is None
    assert subject.refusals
    assert subject.tensors["a"].shape == (2, 3)


def test_weights_with_a_configuration_beside_them(tmp_path: Path) -> None:
    path = write(tmp_path) / "model.safetensors"
    subject = open_subject(path)
    assert subject.refusals == []
    assert subject.directory == subject.root == tmp_path
    assert subject.config["architectures"] == ["LlamaForCausalLM"]
    assert "tokenizer.json" in subject.names
    subject.close()


def test_a_shard_alone_shows_its_own_tensors(tmp_path: Path) -> None:
    shard(write(tmp_path))
    subject = open_subject(tmp_path / "model-00001-of-00002.safetensors")
    assert "is one of several files of a model" in subject.refusals[0]
    assert len(subject.tensors) == 10


def test_files_of_pytorch(tmp_path: Path) -> None:
    tensors = [Outgoing(name, array.shape, "F32", partial(as_rows, array)) for name, array in ARRAYS.items()]
    (write(tmp_path) / "model.safetensors").unlink()
    write_pytorch(tmp_path, tensors, max_shard_bytes=1 << 30)
    for path in (tmp_path, tmp_path / "pytorch_model.bin"):
        subject = open_subject(path)
        assert (subject.format, subject.refusals) == ("pytorch", [])
        assert len(subject.tensors) == 39
        subject.close()
    alone = tmp_path / "alone"
    alone.mkdir()
    (tmp_path / "pytorch_model.bin").rename(alone / "pytorch_model.bin")
    subject = open_subject(alone / "pytorch_model.bin")
    assert len(subject.tensors) == 39
    assert "is only the weights" in subject.refusals[0]


def test_a_gguf_of_an_unknown_architecture_still_shows_its_metadata(tmp_path: Path) -> None:
    (tmp_path / "x.gguf").write_bytes(llama_gguf("strange"))
    for path in (tmp_path, tmp_path / "x.gguf"):
        subject = open_subject(path)
        assert subject.format == "gguf"
        assert "'strange' is not supported" in subject.refusals[0]
        assert subject.metadata["general.architecture"] == "strange"
        assert list(subject.tensors) == ["token_embd.weight"]


def test_a_split_gguf_is_one_model_in_several_files(tmp_path: Path) -> None:
    paths = write_parts(tmp_path)
    for path in (paths[0], paths[2], tmp_path):
        subject = open_subject(path)
        assert subject.names == tuple(part.name for part in paths)
        assert subject.metadata["general.architecture"] == "llama"
        assert subject.root == tmp_path
        subject.close()
    paths[1].unlink()
    subject = open_subject(paths[0])
    assert subject.metadata["general.architecture"] == "llama"
    assert "is missing" in subject.refusals[0]


def test_a_damaged_document_is_a_refusal_and_nothing_more(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "generation_config.json").write_text("{")
    subject = open_subject(tmp_path)
    assert subject.checkpoint is not None
    assert "generation_config.json: is not valid JSON" in subject.refusals[0]
    subject.close()


def test_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file or directory"):
        open_subject(tmp_path / "none")


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["config.json", "model.safetensors"], "safetensors"),
        (["config.json", "pytorch_model.bin"], "pytorch"),
        (["config.json", "model.onnx"], "onnx"),
        (["genai_config.json", "model.onnx", "model.onnx.data"], "onnx"),
        (["x.gguf"], "gguf"),
        (["README.md"], "unknown"),
    ],
)
def test_formats(tmp_path: Path, names: list[str], expected: str) -> None:
    for name in names:
        (tmp_path / name).write_text("x")
    assert find_format(tmp_path) == expected
    assert list_files(tmp_path) == tuple(sorted(names))


def test_folders_are_listed_and_hidden_ones_are_not(tmp_path: Path) -> None:
    for name in ("a/b.txt", "a/c/d.txt", ".git/config"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    assert list_files(tmp_path) == ("a/b.txt",)
