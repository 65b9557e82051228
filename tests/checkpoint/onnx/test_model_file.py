"""What the package `onnx` writes is read, graphs inside of nodes included."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from pelton.checkpoint.mapped_file import MappedFile
from pelton.checkpoint.onnx.model_file import ModelFile, read_model_file

pytestmark = pytest.mark.unit


def read(path: Path, model: onnx.ModelProto) -> ModelFile:
    path.write_bytes(model.SerializeToString())
    return read_model_file(MappedFile(path))


def branch(name: str) -> onnx.GraphProto:
    weight = numpy_helper.from_array(np.ones((2, 3), np.float32), f"{name}.weight")
    node = helper.make_node("MatMul", ["x", f"{name}.weight"], ["y"], name=name)
    out = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    return helper.make_graph([node], name, [], [out], [weight])


def test_branches_see_what_is_around_them(tmp_path: Path) -> None:
    values = [helper.make_tensor_value_info("x", TensorProto.FLOAT, None)]
    values.append(helper.make_tensor_value_info("use", TensorProto.BOOL, []))
    node = helper.make_node("If", ["use"], ["y"], then_branch=branch("a"), else_branch=branch("b"))
    model = helper.make_model(helper.make_graph([node], "g", values, []), opset_imports=[helper.make_opsetid("", 18)])
    model.metadata_props.add(key="k", value="v")
    found = read(tmp_path / "m.onnx", model)
    assert sorted(found.initializers) == ["a.weight", "b.weight"]
    assert sorted(each.name for each in found.nodes) == ["", "a", "b"]
    assert found.metadata == {"k": "v"}


def test_attributes_of_one_number_are_kept(tmp_path: Path) -> None:
    node = helper.make_node("Softmax", ["x"], ["y"], axis=-1)
    values = [helper.make_tensor_value_info("x", TensorProto.FLOAT, None)]
    model = helper.make_model(helper.make_graph([node], "g", values, []), opset_imports=[helper.make_opsetid("", 18)])
    assert read(tmp_path / "m.onnx", model).nodes[0].integers == {"axis": -1}
