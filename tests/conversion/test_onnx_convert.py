"""A directory with everything that whoever runs the graph needs, made whole or not at all."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from tests.verification.small_model import make_small

from pelton.checkpoint.checkpoint import open_checkpoint
from pelton.conversion.convert import Options, Progress
from pelton.conversion.onnx_convert import convert_to_onnx
from pelton.conversion.onnx_export import DATA, check_weights
from pelton.conversion.to_hf import make_hf
from pelton.errors import CheckpointError

pytestmark = pytest.mark.cpu


def test_the_directory_has_what_it_needs(tmp_path: Path) -> None:
    make_small("dense", tmp_path / "hf")
    ledger = convert_to_onnx(tmp_path / "hf", tmp_path / "onnx", Options(), Progress())
    names = {path.name for path in (tmp_path / "onnx").iterdir()}
    assert names >= {"model.onnx", "model.onnx_data", "config.json", "tokenizer.json", "generation_config.json"}
    assert json.loads((tmp_path / "onnx" / "conversion.json").read_text()) == json.loads(json.dumps(ledger))
    weights = {record["target"]: record["sources"] for record in ledger["tensors"]}
    assert weights["layers.0.qkv"] == tuple(f"model.layers.0.self_attn.{part}_proj.weight" for part in "qkv")
    onnxruntime.InferenceSession(tmp_path / "onnx" / "model.onnx", providers=["CPUExecutionProvider"])


def test_it_is_a_source_too(tmp_path: Path) -> None:
    make_small("dense", tmp_path / "hf")
    convert_to_onnx(tmp_path / "hf", tmp_path / "onnx", Options(), Progress())
    with open_checkpoint(tmp_path / "hf") as source, open_checkpoint(tmp_path / "onnx") as back:
        assert {file.path.name for file in back.files} == {"model.onnx", "model.onnx_data"}
        assert back.spec == source.spec
        assert back.generation == source.generation
        assert make_hf(back).losses == []
        for name, info in source.tensors.items():
            assert back.tensors[name] == info
            assert np.array_equal(back.read(name).payload, source.read(name).payload)


def test_a_damaged_weight_is_noticed(tmp_path: Path) -> None:
    make_small("dense", tmp_path / "hf")
    convert_to_onnx(tmp_path / "hf", tmp_path / "onnx", Options(), Progress())
    raw = bytearray((tmp_path / "onnx" / DATA).read_bytes())
    raw[5000] ^= 1
    (tmp_path / "onnx" / DATA).write_bytes(raw)
    with (
        open_checkpoint(tmp_path / "hf") as checkpoint,
        pytest.raises(CheckpointError, match="is not what was written"),
    ):
        check_weights(checkpoint, tmp_path / "onnx")


def test_what_is_not_there_yet_is_said(tmp_path: Path) -> None:
    make_small("dense", tmp_path / "hf")
    with pytest.raises(CheckpointError, match="written as F32"):
        convert_to_onnx(tmp_path / "hf", tmp_path / "onnx", Options(scheme="BF16"), Progress())
    assert not (tmp_path / "onnx").exists()
