"""What a GGUF of a directory holds: types as other readers expect them, and everything of ours under our own keys."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.conversion.test_gguf_vocabulary import source_of
from tests.models.architectures import make_model
from tests.tokenization.small_tokenizers import CONTROL_TOKENS, byte_level_oracle

from pelton.checkpoint.checkpoint import open_checkpoint
from pelton.checkpoint.gguf.checkpoint import GgufCheckpoint
from pelton.conversion.convert import Options, Progress, convert
from pelton.conversion.to_gguf import DTYPES, FILE, TOKENIZER_JSON, make_gguf
from pelton.errors import CheckpointError

pytestmark = pytest.mark.cpu


@pytest.fixture
def with_tokenizer(tmp_path: Path) -> Path:
    """A Llama with a tokenizer, a template, several ends and sampling defaults."""
    import torch  # noqa: PLC0415
    from tests.models import architectures  # noqa: PLC0415

    path = tmp_path / "hf"
    big = {**architectures.CASES["llama"][1], "vocab_size": 640}
    architectures.CASES["llama-words"] = ("Llama", big)
    make_model("llama-words", path, torch.bfloat16)
    del architectures.CASES["llama-words"]
    source_of(byte_level_oracle("qwen2"), path)
    names = {
        "bos_token": CONTROL_TOKENS[0],
        "eos_token": CONTROL_TOKENS[2],
        "chat_template": "{{ messages[0].content }}",
    }
    (path / "tokenizer_config.json").write_text(json.dumps(names))
    generation = {"eos_token_id": [632, 5], "temperature": 0.7, "top_k": 20, "do_sample": True}
    (path / "generation_config.json").write_text(json.dumps(generation))
    return path


def read(path: Path) -> dict[str, Any]:
    with open_checkpoint(path) as checkpoint:
        assert isinstance(checkpoint, GgufCheckpoint)
        return dict(checkpoint.metadata)


def test_vectors_are_float32_and_matrices_stay(with_tokenizer: Path) -> None:
    with open_checkpoint(with_tokenizer) as checkpoint:
        output = make_gguf(checkpoint)
    for tensor in output.tensors:
        assert tensor.scheme == ("F32" if len(tensor.shape) == 1 else "BF16"), tensor.name
    told = json.loads(str(output.metadata[DTYPES]))
    assert set(told.values()) == {"BF16"}
    assert all("norm" in name for name in told)


def test_texts_and_defaults_come_along(with_tokenizer: Path, tmp_path: Path) -> None:
    convert(with_tokenizer, tmp_path / "m.gguf", "gguf", Options(), Progress())
    keys = read(tmp_path / "m.gguf")
    assert keys["tokenizer.ggml.pre"] == "qwen2"
    assert keys["tokenizer.chat_template"] == "{{ messages[0].content }}"
    assert keys["general.sampling.temp"] == 0.7
    assert keys["general.sampling.top_k"] == 20
    assert keys[TOKENIZER_JSON] == (with_tokenizer / "tokenizer.json").read_text()
    assert keys[FILE + "generation_config.json"] == (with_tokenizer / "generation_config.json").read_text()
    with open_checkpoint(with_tokenizer) as hf, open_checkpoint(tmp_path / "m.gguf") as made:
        assert set(made.generation.eos_token_ids) >= {632, 5}
        assert made.spec == hf.spec or made.spec.weight_dtype != hf.spec.weight_dtype
    convert(tmp_path / "m.gguf", tmp_path / "back", "safetensors", Options(strict=True), Progress())
    for file in with_tokenizer.glob("*.json"):
        assert (tmp_path / "back" / file.name).read_bytes() == file.read_bytes(), file.name


def test_rounding_that_was_asked_for_is_listed(with_tokenizer: Path, tmp_path: Path) -> None:
    ledger = convert(with_tokenizer, tmp_path / "m.gguf", "gguf", Options(scheme="F16"), Progress())
    lost = [loss["field"] for loss in ledger["losses"]]
    assert "tensor token_embd.weight" in lost
    assert "tensor blk.0.attn_q.weight" not in lost  # whose numbers F16 holds
    assert "tensor blk.0.attn_norm.weight" not in lost
    with pytest.raises(CheckpointError, match="rounded to F16"):
        convert(with_tokenizer, tmp_path / "n.gguf", "gguf", Options(scheme="F16", strict=True), Progress())


def test_a_gguf_is_one_already(with_tokenizer: Path, tmp_path: Path) -> None:
    convert(with_tokenizer, tmp_path / "m.gguf", "gguf", Options(), Progress())
    with open_checkpoint(tmp_path / "m.gguf") as checkpoint, pytest.raises(CheckpointError, match="already"):
        make_gguf(checkpoint)


def test_weights_of_pytorch_make_the_same_gguf(with_tokenizer: Path, tmp_path: Path) -> None:
    convert(with_tokenizer, tmp_path / "bin", "pytorch", Options(), Progress())
    convert(with_tokenizer, tmp_path / "a.gguf", "gguf", Options(), Progress())
    convert(tmp_path / "bin", tmp_path / "b.gguf", "gguf", Options(), Progress())
    convert(tmp_path / "bin" / "pytorch_model.bin", tmp_path / "c.gguf", "gguf", Options(), Progress())
    with open_checkpoint(tmp_path / "a.gguf") as a:
        for name in ("b.gguf", "c.gguf"):
            with open_checkpoint(tmp_path / name) as other:
                assert dict(a.tensors) == dict(other.tensors)
                assert all((a.read(each).payload == other.read(each).payload).all() for each in a.tensors)
                assert a.spec == other.spec
