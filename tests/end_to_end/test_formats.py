"""One model in several formats gives the same tokens."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tests.fakes import TinyModel

from pelton import LLM, SamplingParams
from pelton.checkpoint.checkpoint import open_checkpoint
from pelton.checkpoint.outgoing import outgoing
from pelton.checkpoint.pytorch.writer import write_pytorch

pytestmark = pytest.mark.cpu

MODEL = TinyModel()
PROMPTS = ["one two three", "a", "Zebra crossing?"]


def continue_texts(path: Path) -> list[list[int]]:
    with LLM(str(path), num_threads=1) as llm:
        answers = llm.generate(PROMPTS, SamplingParams(max_tokens=12, temperature=0.0, ignore_eos=True))
        return [list(answer.outputs[0].token_ids) for answer in answers]


@pytest.fixture(scope="module")
def safetensors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return MODEL.write(tmp_path_factory.mktemp("safetensors"))


@pytest.fixture(scope="module")
def expected(safetensors: Path) -> list[list[int]]:
    return continue_texts(safetensors)


def without_weights(path: Path) -> Path:
    (MODEL.write(path) / "model.safetensors").unlink()
    return path


def test_saved_by_torch_with_views(tmp_path: Path, expected: list[list[int]]) -> None:
    """Every matrix lies transposed in its storage, and behind another tensor."""
    directory = without_weights(tmp_path / "model")
    views = {}
    for name, array in MODEL.tensors().items():
        behind = torch.zeros(7 + array.size)
        behind[7:] = torch.from_numpy(array.T.reshape(-1).copy())
        views[name] = behind[7:].view(array.shape[::-1]).permute(*reversed(range(array.ndim)))
    torch.save(views, directory / "pytorch_model.bin")
    assert continue_texts(directory) == expected
    (directory / "pytorch_model.bin").rename(directory / "any.pth")
    assert continue_texts(directory / "any.pth") == expected


def test_written_in_shards(tmp_path: Path, safetensors: Path, expected: list[list[int]]) -> None:
    directory = without_weights(tmp_path / "model")
    with open_checkpoint(safetensors) as checkpoint:
        tensors = [outgoing(name, checkpoint.read(name)) for name in checkpoint.tensors]
        write_pytorch(directory, tensors, max_shard_bytes=100_000)
    assert len(list(directory.glob("*.bin"))) > 2
    assert continue_texts(directory) == expected
