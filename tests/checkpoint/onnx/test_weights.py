"""Weights come out of every layout of ONNX under their names and bit for bit, or not at all."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tests.models.architectures import CASES, make_model

from pelton.checkpoint.checkpoint import open_checkpoint
from pelton.checkpoint.dequantize import dequantize
from pelton.checkpoint.onnx.weights import TENSORS_KEY, read_onnx
from pelton.conversion.onnx_export import export_onnx
from pelton.errors import CheckpointError

pytestmark = pytest.mark.cpu


def export(source: Path, target: Path) -> Path:
    target.mkdir()
    with open_checkpoint(source) as checkpoint:
        export_onnx(checkpoint, target)
    shutil.copy(source / "config.json", target)
    return target


@pytest.mark.parametrize("name", CASES)
def test_what_we_exported_is_read_back_bit_for_bit(name: str, tmp_path: Path) -> None:
    (tmp_path / "hf").mkdir()
    make_model(name, tmp_path / "hf")
    target = export(tmp_path / "hf", tmp_path / "onnx")
    with open_checkpoint(tmp_path / "hf") as source, open_checkpoint(target) as back:
        assert back.spec == source.spec
        assert set(back.tensors) <= set(source.tensors)  # spare copies are not exported
        assert sum(info.nbytes for info in back.tensors.values()) <= sum(i.nbytes for i in source.tensors.values())
        for tensor, info in back.tensors.items():
            assert info.shape == source.tensors[tensor].shape
            ours, theirs = back.read(tensor), source.read(tensor)
            assert np.array_equal(dequantize(ours).view(np.uint32), dequantize(theirs).view(np.uint32)), tensor


def test_a_row_that_is_in_two_tensors_is_refused(tmp_path: Path) -> None:
    (tmp_path / "hf").mkdir()
    make_model("llama", tmp_path / "hf")
    target = export(tmp_path / "hf", tmp_path / "onnx")
    model = onnx.load(target / "model.onnx", load_external_data=False)
    (entry,) = [each for each in model.metadata_props if each.key == TENSORS_KEY]
    told: dict[str, Any] = json.loads(entry.value)
    told["model.layers.0.self_attn.k_proj.weight"][1] -= 1
    entry.value = json.dumps(told)
    (target / "model.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(CheckpointError, match=r"not each row of 'layers.0.qkv' is in exactly one tensor"):
        read_onnx(target / "model.onnx")


def write(path: Path, nodes: list[onnx.NodeProto], weights: dict[str, np.ndarray], **domains: int) -> Path:
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, None)]
    tensors = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "g", inputs, [], tensors)
    opsets = [
        helper.make_opsetid("", 18),
        *(helper.make_opsetid(name.replace("_", "."), n) for name, n in domains.items()),
    ]
    path.write_bytes(helper.make_model(graph, opset_imports=opsets).SerializeToString())
    return path


def matrix(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def numbers(path: Path) -> dict[str, np.ndarray]:
    return {name: placed.flat().view(np.float32).reshape(placed.info.shape) for name, placed in read_onnx(path).items()}


def test_linears_of_optimum_are_named_after_their_nodes(tmp_path: Path) -> None:
    linear, norm = matrix(3, 5), matrix(5)
    nodes = [
        helper.make_node("MatMul", ["x", "onnx::MatMul_7"], ["y"], name="/model/layers.0/mlp/up_proj/MatMul"),
        helper.make_node("Mul", ["y", "model.norm.weight"], ["z"], name="/model/norm/Mul"),
    ]
    path = write(tmp_path / "m.onnx", nodes, {"onnx::MatMul_7": linear, "model.norm.weight": norm})
    found = numbers(path)
    assert set(found) == {"model.layers.0.mlp.up_proj.weight", "model.norm.weight"}
    np.testing.assert_array_equal(found["model.layers.0.mlp.up_proj.weight"], linear.T)
    np.testing.assert_array_equal(found["model.norm.weight"], norm)


def test_a_matrix_that_no_name_explains_is_refused(tmp_path: Path) -> None:
    nodes = [helper.make_node("MatMul", ["x", "val_7"], ["y"], name="node_3")]
    path = write(tmp_path / "m.onnx", nodes, {"val_7": matrix(3, 5), "model.norm.weight": matrix(5)})
    with pytest.raises(CheckpointError, match="does not say which parameter"):
        read_onnx(path)


@pytest.mark.parametrize("family", ["gemma3_text", "olmo2", None])
def test_families_whose_weights_genai_changes_are_refused(family: str | None, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": family}))
    path = write(tmp_path / "m.onnx", [], {"lm_head.MatMul.weight": matrix(8, 11)})
    with pytest.raises(CheckpointError, match="changes weights of"):
        read_onnx(path)


def test_packed_heads_of_genai_are_taken_apart(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "qwen2"}))
    qkv, bias = matrix(8, (4 + 2 + 2) * 6), matrix((4 + 2 + 2) * 6, seed=1)
    weights = {
        "model.layers.0.attn.qkv_proj.MatMul.weight": qkv,
        "model.layers.0.attn.qkv_proj.Add.bias": bias,
        "model.layers.1.final_norm_layernorm.weight": matrix(8),
        "lm_head.MatMul.weight": matrix(8, 11),
    }
    nodes = [
        helper.make_node(
            "GroupQueryAttention", ["x"], ["y"], domain="com.microsoft", name="a", num_heads=4, kv_num_heads=2
        )
    ]
    found = numbers(write(tmp_path / "m.onnx", nodes, weights, com_microsoft=1))
    q, k, v = np.split(qkv.T, [24, 36])
    for part, expected in zip("qkv", (q, k, v), strict=True):
        np.testing.assert_array_equal(found[f"model.layers.0.self_attn.{part}_proj.weight"], expected)
    np.testing.assert_array_equal(found["model.layers.0.self_attn.k_proj.bias"], bias[24:36])
    assert found["lm_head.weight"].shape == (11, 8)
    assert "model.norm.weight" in found


def test_packed_weights_are_refused_by_name(tmp_path: Path) -> None:
    nodes = [helper.make_node("MatMulNBits", ["x"], ["y"], domain="com.microsoft", name="q")]
    with pytest.raises(CheckpointError, match="is a MatMulNBits, whose weights are packed"):
        read_onnx(write(tmp_path / "m.onnx", nodes, {"model.norm.weight": matrix(5)}, com_microsoft=1))
