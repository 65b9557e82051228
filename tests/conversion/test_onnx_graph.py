"""Every op of the vocabulary has a form in ONNX, or is one that only passes make."""

from __future__ import annotations

import pytest

from pelton.conversion.onnx_graph import GraphBuilder
from pelton.errors import CheckpointError
from pelton.plan import Recorder, WeightRef, ops
from pelton.plan.registry import OPS

pytestmark = pytest.mark.unit


def test_every_op_that_models_record_has_one() -> None:
    missing = [
        name for name, spec in OPS.items() if not spec.fused and getattr(GraphBuilder, f"_op_{name}", None) is None
    ]
    assert missing == []


def test_an_op_without_one_is_refused_by_name() -> None:
    p = Recorder()
    x = ops.embedding(p, p.token_ids, WeightRef("embed", (5, 4)))
    y = ops.linear_gated(p, x, WeightRef("gate_up", (6, 4)), None, "silu")
    with pytest.raises(CheckpointError, match="'linear_gated' has no form in ONNX"):
        GraphBuilder(p.plan(y), head_dim=4, num_kv_heads=1, num_layers=0, one_less={})
