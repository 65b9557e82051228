"""Whole models on every backend: close to the oracle, and the same bits however the tokens are cut into steps."""

from dataclasses import replace
from functools import reduce

import numpy as np
import pytest
from tests.conformance.backends import CANDIDATES, ORACLE, Candidate
from tests.steps import LIMITS, program, step
from tests.tiny_plans import MODELS, VOCAB, TinyPlan, tiny_plan

from pelton.backends.executable import Backend, Executable

pytestmark = pytest.mark.cpu

TOKENS = np.random.default_rng(1).integers(0, VOCAB, 60).tolist()
NATIVE = [candidate for candidate in CANDIDATES if candidate.isa is not None]
# Relative to the largest logit of a row. Weights are F32, which the exact mode computes with as they are; by default
# operands are rounded to 8 bits or so, and errors grow over layers whose weights are larger than real ones.
TOLERANCE = {"float32": 1e-5, "bfloat16": 1e-5, "int8": 0.08}


def compiled(backend: Backend, tiny: TinyPlan, **limits: int) -> Executable:
    plan = reduce(lambda plan, rewrite: rewrite(plan), backend.passes, tiny.plan)
    return program(backend, plan, tiny.weights, replace(LIMITS, **limits))


def logits(executable: Executable, *requests, **settings) -> np.ndarray:
    return executable.run(step(requests, **settings), want_logits=True).logits_SV


@pytest.mark.parametrize("candidate", CANDIDATES, ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_models_are_close_to_the_oracle(candidate: Candidate, name: str) -> None:
    tiny = tiny_plan(name)
    exact = logits(compiled(ORACLE, tiny), (TOKENS, 0))
    with candidate.open() as backend:
        given = logits(compiled(backend, tiny, exact=candidate.exact), (TOKENS, 0))
    error = np.abs(given - exact).max(axis=1) / np.abs(exact).max(axis=1)
    assert error.max() <= TOLERANCE[candidate.arithmetic]


@pytest.mark.parametrize("candidate", NATIVE, ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_bits_do_not_depend_on_chunks_batch_blocks_or_threads(candidate: Candidate, name: str) -> None:
    tiny = tiny_plan(name)
    with candidate.open() as backend:
        whole = logits(compiled(backend, tiny, exact=candidate.exact), (TOKENS, 0))
        for chunk in (1, 7, 33):
            executable = compiled(backend, tiny, exact=candidate.exact, num_threads=2)
            pieces = [logits(executable, (TOKENS[i : i + chunk], i)) for i in range(0, len(TOKENS), chunk)]
            np.testing.assert_array_equal(np.concatenate(pieces), whole)
        executable = compiled(backend, tiny, exact=candidate.exact, num_threads=2)
        logits(executable, (TOKENS[:40], 0), block_tables=[[9, 3, 60]])
        batch = [(TOKENS[:9], 0), (TOKENS[40:], 40), (TOKENS[:1], 0), (TOKENS[:3], 0)]
        together = logits(executable, *batch, block_tables=[[1], [9, 3, 60, 5], [2], [0]])
    np.testing.assert_array_equal(together, np.concatenate((whole[:9], whole[40:], whole[:1], whole[:3])))
