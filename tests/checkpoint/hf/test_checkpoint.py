"""A directory as a checkpoint: tensors, generation, and a tokenizer with its template in each of the places."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.checkpoint.hf.quantized.stored import as_awq, random_linear, write_checkpoint
from tests.model_files import safetensors_bytes, safetensors_of

from pelton.checkpoint.dequantize import dequantize
from pelton.checkpoint.hf.checkpoint import HfCheckpoint
from pelton.errors import CheckpointError

pytestmark = pytest.mark.unit

CONFIG = {"architectures": ["LlamaForCausalLM"], "hidden_size": 16, "num_attention_heads": 4, "eos_token_id": 5}


def make(directory: Path, *, weights: bytes | None = None, **files: Any) -> HfCheckpoint:
    """A directory with a configuration, weights, and JSON or text files; "__" in a name stands for "."."""
    values = np.arange(12, dtype=np.float32).reshape(3, 4)
    (directory / "model.safetensors").write_bytes(weights or safetensors_of({"a.weight": values, "b": values[0]}))
    for name, content in {"config__json": CONFIG, **files}.items():
        path = directory / name.replace("__", ".")
        path.parent.mkdir(exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content))
    return HfCheckpoint(directory)


def test_tensors(tmp_path: Path) -> None:
    with make(tmp_path) as checkpoint:
        assert (checkpoint.path, checkpoint.naming) == (tmp_path, "hf")
        assert {name: info.shape for name, info in checkpoint.tensors.items()} == {"a.weight": (3, 4), "b": (4,)}
        assert checkpoint.weight_bytes == 64
        tensor = checkpoint.read("a.weight")
        with pytest.raises(CheckpointError, match=r"no tensor 'a\.wait'\. Did you mean 'a\.weight'"):
            checkpoint.read("a.wait")
    assert tensor.payload.shape == (3, 16)
    assert dequantize(tensor).tolist() == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]


def test_the_dtype_of_the_weights_stands_in_for_a_missing_one(tmp_path: Path) -> None:
    assert make(tmp_path).spec.weight_dtype == "float32"
    assert make(tmp_path, config__json={**CONFIG, "torch_dtype": "bfloat16"}).spec.weight_dtype == "bfloat16"


def test_a_dtype_nothing_computes_with_is_refused_when_read(tmp_path: Path) -> None:
    header = {"a": {"dtype": "F8_E4M3", "shape": [2], "data_offsets": [0, 2]}}
    checkpoint = make(tmp_path, weights=safetensors_bytes(header, bytes(2)))
    with pytest.raises(CheckpointError, match="'a' is stored as F8_E4M3"):
        checkpoint.read("a")


def test_generation(tmp_path: Path) -> None:
    defaults = make(tmp_path, generation_config__json={"eos_token_id": [7, 5], "temperature": 0.5}).generation
    assert (defaults.eos_token_ids, defaults.temperature) == ((7, 5), 0.5)


def test_a_quantized_linear_is_one_tensor(tmp_path: Path) -> None:
    linear = random_linear(48, 32)
    stored = {f"layer.{name}": tensor for name, tensor in as_awq(linear).items()}
    config = CONFIG | {"quantization_config": {"quant_method": "awq", "bits": 4, "group_size": -1, "version": "GEMM"}}
    checkpoint = write_checkpoint(tmp_path, config, {"a": torch.zeros(3, dtype=torch.bfloat16), **stored})
    infos = {name: (info.shape, info.scheme) for name, info in checkpoint.tensors.items()}
    assert infos == {"layer.weight": ((48, 32), "INT4_G32"), "a": ((3,), "BF16")}
    assert checkpoint.weight_bytes == 6 + sum(tensor.nbytes for tensor in stored.values())
    np.testing.assert_array_equal(dequantize(checkpoint.read("layer.weight")), linear.values)
    with pytest.raises(CheckpointError, match=r"there is no tensor 'layer\.qweight'"):
        checkpoint.read("layer.qweight")
    assert checkpoint.spec.weight_dtype == "bfloat16"


def test_a_missing_tokenizer_is_an_error_only_when_it_is_wanted(tmp_path: Path) -> None:
    checkpoint = make(tmp_path)
    with pytest.raises(CheckpointError, match=r"tokenizer\.json: is missing"):
        _ = checkpoint.tokenizer_source


def test_tokenizer_files(tmp_path: Path) -> None:
    source = make(
        tmp_path, tokenizer__json={}, tokenizer_config__json={"x": 1}, special_tokens_map__json={"bos_token": "<s>"}
    ).tokenizer_source
    assert source.tokenizer_json == tmp_path / "tokenizer.json"
    assert (source.tokenizer_config, source.special_tokens) == ({"x": 1}, {"bos_token": "<s>"})
    assert (source.chat_template, source.chat_templates) == (None, {})


@pytest.mark.parametrize(
    "files",
    [
        {"chat_template__jinja": "T"},
        {"tokenizer_config__json": {"chat_template": "T"}},
        {"tokenizer_config__json": {"chat_template": [{"name": "default", "template": "T"}]}},
        {"chat_template__json": {"chat_template": "T"}},
        {"chat_template__jinja": "T", "tokenizer_config__json": {"chat_template": "other"}},
        {"tokenizer_config__json": {"chat_template": "T"}, "chat_template__json": {"chat_template": "other"}},
    ],
)
def test_a_template_in_each_of_its_places(tmp_path: Path, files: dict[str, Any]) -> None:
    source = make(tmp_path, tokenizer__json={}, **files).tokenizer_source
    assert (source.chat_template, source.chat_templates) == ("T", {})


def test_named_templates(tmp_path: Path) -> None:
    named = {"chat_template": [{"name": "default", "template": "T"}, {"name": "rag", "template": "R"}]}
    files = {"tokenizer_config__json": named, "additional_chat_templates/tool_use__jinja": "U"}
    source = make(tmp_path, tokenizer__json={}, **files).tokenizer_source
    assert (source.chat_template, source.chat_templates) == ("T", {"rag": "R", "tool_use": "U"})


@pytest.mark.parametrize("template", [3, [3], [{"name": "default"}], {"default": "T"}])
def test_a_broken_template_is_refused(tmp_path: Path, template: Any) -> None:
    checkpoint = make(tmp_path, tokenizer__json={}, tokenizer_config__json={"chat_template": template})
    with pytest.raises(CheckpointError, match="chat_template must be text"):
        _ = checkpoint.tokenizer_source


def test_a_template_must_be_short_text(tmp_path: Path) -> None:
    checkpoint = make(tmp_path, tokenizer__json={})
    (tmp_path / "chat_template.jinja").write_bytes(b"\xff")
    with pytest.raises(CheckpointError, match="not valid UTF-8"):
        _ = checkpoint.tokenizer_source
    (tmp_path / "chat_template.jinja").write_bytes(b" " * (5 << 20))
    with pytest.raises(CheckpointError, match="a template has at most"):
        _ = checkpoint.tokenizer_source


def test_a_directory_without_configuration_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"config\.json: there is no such file"):
        HfCheckpoint(tmp_path)
