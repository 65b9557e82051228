"""The vector functions keep their stated accuracy over their whole range, and give the same bits on every set."""

import math

import numpy as np
import pytest
from tests.backends.cpu.test_sampling import AVAILABLE
from tests.steps import program, step

from pelton.backends.cpu import CpuBackend, get_isa, set_isa
from pelton.backends.executable import Limits
from pelton.checkpoint.weight import Tensor, Weight
from pelton.plan import Recorder, WeightRef, ops

pytestmark = pytest.mark.cpu

LIMITS = Limits(
    max_num_batched_tokens=1,
    max_num_requests=1,
    max_num_logits_rows=1,
    block_size=16,
    max_blocks_per_request=1,
    num_threads=1,
)
X = np.concatenate([np.linspace(-100, 100, 20000), np.linspace(-2, 2, 20002), 10.0 ** np.linspace(-15, 3, 999)])
X = X.astype(np.float32)


def computed(record) -> np.ndarray:
    p = Recorder()
    x = ops.embedding(p, p.token_ids, WeightRef("x", (1, X.size)))
    plan = p.plan(ops.select_rows(p, record(p, x)))
    weights = {"x": Weight("x", (Tensor("x", (1, X.size), "F32", X[None].view(np.uint8)),))}
    results = []
    before = get_isa()
    for isa in AVAILABLE:
        set_isa(isa)
        results.append(
            program(CpuBackend(), plan, weights, LIMITS, 1).run(step([([0], 0)], limits=LIMITS), want_logits=True)
        )
    set_isa(before)
    assert all(np.array_equal(result.logits_SV, results[0].logits_SV) for result in results)
    return results[0].logits_SV[0].astype(np.float64)


def exact(kind: str) -> np.ndarray:
    x = X.astype(np.float64)
    if kind == "silu":
        return x * np.exp(-np.logaddexp(0, -x))
    if kind == "gelu":
        return np.array([0.5 * v * math.erfc(-v / math.sqrt(2)) for v in x])
    if kind == "gelu_tanh":
        return x * np.exp(-np.logaddexp(0, -2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return np.maximum(x, 0) ** (2 if kind == "relu2" else 1)


@pytest.mark.parametrize("kind", ["silu", "gelu", "gelu_tanh", "relu", "relu2"])
def test_activations(kind: str) -> None:
    error = np.abs(computed(lambda p, x: ops.activation(p, x, kind)) - exact(kind))
    assert (error / np.abs(X.astype(np.float64)) ** (2 if kind == "relu2" else 1)).max() <= 5e-7


@pytest.mark.parametrize("cap", [1.0, 30.0])
def test_softcap(cap: float) -> None:
    expected = cap * np.tanh(X.astype(np.float64) / cap)
    assert (np.abs(computed(lambda p, x: ops.softcap(p, x, cap)) - expected) / np.abs(expected)).max() <= 5e-7
