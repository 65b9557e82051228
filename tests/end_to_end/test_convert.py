"""Real files there and back are the same files; transformers says of the directory what Pelton says of the file."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import transformers

from pelton import LLM, SamplingParams
from pelton.checkpoint.file_hash import compute_sha256
from pelton.checkpoint.hub import where
from pelton.conversion.convert import Options, Progress, convert

pytestmark = pytest.mark.cpu
PROMPT = "The history of computing began when"


@pytest.fixture
def space(tmp_path: Path) -> Iterator[Path]:
    """A directory for gigabytes, which nobody keeps."""
    yield tmp_path
    shutil.rmtree(tmp_path)


def find(name: str) -> Path:
    path = where(name)
    if path is None:
        pytest.skip(f"{name} is not in the cache; python tools/fetch_models.py {name} puts it there")
    return path


@pytest.fixture(scope="module")
def gemma(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Gemma as a directory."""
    source, path = find("gemma-3-270m"), tmp_path_factory.mktemp("gemma")
    convert(source, path / "hf", "safetensors", Options(), Progress())
    yield path / "hf"
    shutil.rmtree(path)


def test_gemma_is_the_same_file_again(gemma: Path, space: Path) -> None:
    convert(gemma, space / "m.gguf", "gguf", Options(), Progress())
    assert compute_sha256(space / "m.gguf") == compute_sha256(find("gemma-3-270m"))


def test_qwen_is_the_same_file_again(space: Path) -> None:
    source = find("demo")
    convert(source, space / "hf", "safetensors", Options(), Progress())
    convert(space / "hf", space / "m.gguf", "gguf", Options(), Progress())
    assert compute_sha256(space / "m.gguf") == compute_sha256(source)


def test_transformers_says_the_same(gemma: Path) -> None:
    tokenizer = transformers.AutoTokenizer.from_pretrained(gemma)
    model = transformers.AutoModelForCausalLM.from_pretrained(gemma, dtype=torch.float32)
    asked = tokenizer(PROMPT, return_tensors="pt")
    theirs = model.generate(**asked, max_new_tokens=24, do_sample=False)[0, asked["input_ids"].shape[1] :].tolist()
    del model
    with LLM(str(find("gemma-3-270m"))) as llm:
        (ours,) = llm.generate(PROMPT, SamplingParams(temperature=0, max_tokens=24), use_tqdm=False)
    assert list(ours.outputs[0].token_ids) == theirs


@pytest.mark.parametrize("to", ["safetensors", "pytorch"])
def test_a_model_that_cannot_be_run_is_copied(to: str, space: Path) -> None:
    source = find("all-minilm-l6-v2")
    convert(source, space / "copy", to, Options(), Progress())  # type: ignore[arg-type]
    convert(space / "copy", space / "back", "safetensors", Options(), Progress())
    assert compute_sha256(space / "back" / "model.safetensors") == compute_sha256(source / "model.safetensors")
