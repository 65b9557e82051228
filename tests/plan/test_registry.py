"""The vocabulary is complete: a file, a recording function, a spec and a definition for each op."""

import pkgutil

import numpy as np
import pytest
from tests.conformance.one_op import one_op
from tests.tiny_plans import MODELS, tiny_plan

from pelton.backends.reference.backend import DEFINITIONS, STEP_DEFINITIONS
from pelton.plan import Recorder, ops
from pelton.plan.registry import OPS

pytestmark = pytest.mark.unit


def test_files_functions_specs_and_definitions_are_the_same_set():
    files = {module.name for module in pkgutil.iter_modules(ops.__path__)}
    assert set(OPS) == files == set(ops.__all__) == set(DEFINITIONS) | set(STEP_DEFINITIONS)
    assert [spec.name for spec in OPS.values()] == list(OPS)


def test_models_record_basic_ops_only_and_all_of_them():
    used = {node.op for name in MODELS for node in tiny_plan(name).plan.nodes}
    assert used == {name for name, spec in OPS.items() if not spec.fused}


@pytest.mark.parametrize("spec", OPS.values(), ids=lambda spec: spec.name)
def test_cases_are_recorded_as_the_op_and_repeat(spec):
    first, second = (spec.sample(np.random.default_rng(5)) for _ in range(2))
    assert len({case.name for case in first}) == len(first)
    for a, b in zip(first, second, strict=True):
        assert spec.name in [node.op for node in one_op(spec, a).plans[0].nodes]
        for x, y in zip((*a.inputs, *a.weights), (*b.inputs, *b.weights), strict=True):
            np.testing.assert_array_equal(x, y)
    assert set(spec.tolerance) == {"float32", "bfloat16", "int8"}
    assert spec.tolerance["float32"] <= spec.tolerance["bfloat16"] <= spec.tolerance["int8"]


def test_a_fresh_recorder_shares_nothing():
    a, b = Recorder(), Recorder()
    ops.embedding(a, a.token_ids, next(iter(tiny_plan("llama_like").plan.weights().values())))
    assert a.nodes
    assert not b.nodes
