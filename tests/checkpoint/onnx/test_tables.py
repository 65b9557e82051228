"""Tables of angles in a file are those of the configuration, or the model is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from tests.models.architectures import make_model

from pelton.checkpoint.checkpoint import open_checkpoint
from pelton.checkpoint.model_spec import ModelSpec
from pelton.checkpoint.onnx.tables import check_tables
from pelton.checkpoint.rope import rotary_frequencies
from pelton.errors import CheckpointError

pytestmark = pytest.mark.cpu


@pytest.fixture(scope="module", params=["llama", "llama-yarn", "qwen3"])
def spec(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> ModelSpec:
    path = tmp_path_factory.mktemp("hf")
    make_model(request.param, path)
    with open_checkpoint(path) as checkpoint:
        return checkpoint.spec


def write(path: Path, spec: ModelSpec) -> Path:
    rope = spec.layers[0].rope
    assert rope is not None
    frequencies, factor = rotary_frequencies(rope, spec.max_position)
    angles = np.arange(500)[:, None] * np.array(frequencies)
    tables = {"cos_cache": np.cos(angles), "sin_cache": np.sin(angles)}
    tensors = [numpy_helper.from_array((factor * table).astype(np.float16), name) for name, table in tables.items()]
    model = helper.make_model(helper.make_graph([], "g", [], [], tensors), opset_imports=[helper.make_opsetid("", 18)])
    path.write_bytes(model.SerializeToString())
    assert onnx.load(path).graph.name == "g"
    return path


def test_its_own_angles_are_accepted(spec: ModelSpec, tmp_path: Path) -> None:
    check_tables(write(tmp_path / "m.onnx", spec), spec)


def test_other_angles_are_refused(spec: ModelSpec, tmp_path: Path) -> None:
    path = write(tmp_path / "m.onnx", spec)
    layers = []
    for layer in spec.layers:
        assert layer.rope is not None
        layers.append(replace(layer, rope=replace(layer.rope, theta=layer.rope.theta * 1.1)))
    with pytest.raises(CheckpointError, match="are those of no layer"):
        check_tables(path, replace(spec, layers=tuple(layers)))
