"""The bytes are those that the reference package reads."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import numpy_helper

from pelton.conversion import onnx_proto as proto

pytestmark = pytest.mark.unit


@given(
    ints=st.lists(st.integers(-(2**63), 2**63 - 1), max_size=5),
    number=st.floats(width=32, allow_nan=False),
    text=st.text(max_size=20),
)
def test_a_node_is_read_back(ints: list[int], number: float, text: str) -> None:
    raw = proto.node("Op", ["a", "b"], ["c"], {"i": 7, "f": number, "s": text, "list": ints})
    node = onnx.NodeProto.FromString(raw)
    assert (node.op_type, list(node.input), list(node.output), node.name) == ("Op", ["a", "b"], ["c"], "c")
    found = {each.name: onnx.helper.get_attribute_value(each) for each in node.attribute}
    assert found == {"i": 7, "f": number, "s": text.encode(), "list": ints}


def test_tensors_and_shapes_are_read_back() -> None:
    numbers = np.array([[1, -2, 3]], np.int64)
    tensor = onnx.TensorProto.FromString(proto.constant("x", proto.INT64, numbers.shape, numbers.tobytes()))
    assert np.array_equal(numpy_helper.to_array(tensor), numbers)
    outside = onnx.TensorProto.FromString(proto.external("w", (2, 3), "w.data", 4096, 24))
    assert {each.key: each.value for each in outside.external_data} == {
        "location": "w.data",
        "offset": "4096",
        "length": "24",
    }
    assert outside.data_location == onnx.TensorProto.EXTERNAL
    info = onnx.ValueInfoProto.FromString(proto.value_info("v", proto.FLOAT, ["batch", 7]))
    dims = info.type.tensor_type.shape.dim
    assert (dims[0].dim_param, dims[1].dim_value, info.type.tensor_type.elem_type) == ("batch", 7, proto.FLOAT)


def test_a_model_has_its_versions() -> None:
    model = onnx.ModelProto.FromString(proto.model(b"", {"k": "v"}, ("pelton", "1")))
    assert (model.ir_version, model.opset_import[0].version, model.producer_name) == (proto.IR_VERSION, 18, "pelton")
    assert {each.key: each.value for each in model.metadata_props} == {"k": "v"}
