"""A linear whose strips hold gates and their ups writes the bits that linear, gated and quantize write one by one."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from tests.backends.cpu.test_linear import AVAILABLE
from tests.conformance.scheme import random_weight
from tests.steps import LIMITS, dense_weight, program, step

from pelton.backends.cpu import CpuBackend, _native
from pelton.backends.executable import Executable
from pelton.checkpoint.weight import Weight
from pelton.plan import Plan, Recorder, WeightRef, ops
from pelton.plan.passes import fuse_gated

pytestmark = pytest.mark.cpu

VOCAB, HIDDEN, FF = 40, 256, 512
TOKENS = np.random.default_rng(1).integers(0, VOCAB, 50).tolist()


@pytest.fixture(params=AVAILABLE)
def isa(request: pytest.FixtureRequest) -> Iterator[str]:
    """Runs the test once per instruction set, and leaves the process with the one it had."""
    before = _native.isa()
    _native.set_isa(request.param)
    yield request.param
    _native.set_isa(before)


def model(
    kind: str, ff: int, gates: str, ups: str, down: str, *, bias: bool, stacked: bool
) -> tuple[Plan, dict[str, Weight]]:
    """An embedding, one gated block, a head."""
    p = Recorder()
    x = ops.embedding(p, p.token_ids, WeightRef("embed", (VOCAB, HIDDEN)))
    bias_ref = WeightRef("bias", (2 * ff,)) if bias else None
    h = ops.gated(p, ops.linear(p, x, WeightRef("gate_up", (2 * ff, HIDDEN)), bias_ref), kind)
    y = ops.add(p, x, ops.linear(p, h, WeightRef("down", (HIDDEN, ff))))
    plan = p.plan(ops.linear(p, ops.select_rows(p, y), WeightRef("head", (VOCAB, HIDDEN))))
    rng = np.random.default_rng(0)

    def random(name: str, rows: int, columns: int, scheme: str) -> Weight:
        return random_weight(name, rng.normal(size=(rows, columns)).astype(np.float32) / 16, scheme)

    weights = {
        "embed": dense_weight("embed", rng.normal(size=(VOCAB, HIDDEN))),
        "down": random("down", HIDDEN, ff, down),
        "head": random("head", VOCAB, HIDDEN, "Q8_0"),
    }
    if stacked:
        weights["gate_up"] = random("gate_up", 2 * ff, HIDDEN, gates)
    else:
        halves = (random("gate", ff, HIDDEN, gates), random("up", ff, HIDDEN, ups))
        weights["gate_up"] = Weight("gate_up", tuple(part for half in halves for part in half.parts))
    if bias:
        weights["bias"] = dense_weight("bias", rng.normal(size=2 * ff))
    return plan, weights


def kernels_of(executable: Executable) -> set[str]:
    return {op for op, _, _ in executable.explain()}


def logits(executable: Executable) -> np.ndarray:
    found = executable.run(step([(TOKENS, 0)]), want_logits=True).logits_SV
    assert found is not None
    return found


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("wide_activations", ["none", "all"])
@pytest.mark.parametrize(
    ("kind", "schemes", "bias", "stacked"),
    [
        ("silu", ("Q5_0", "Q4_K"), False, False),
        ("gelu_tanh", ("Q6_K", "Q8_0"), True, True),
        ("gelu", ("BF16", "BF16"), True, False),
        ("relu", ("F16", "Q2_K"), False, True),
        ("relu2", ("F32", "F32"), False, False),
    ],
)
def test_the_bits_of_one_by_one(
    isa: str, kind: str, schemes: tuple[str, str], bias: bool, stacked: bool, wide_activations: str, exact: bool
) -> None:
    gates, down = schemes
    plan, weights = model(kind, FF, gates, gates, down, bias=bias, stacked=stacked)
    limits = replace(LIMITS, exact=exact, wide_activations=wide_activations)
    apart = program(CpuBackend(), plan, weights, limits)
    fused = program(CpuBackend(), fuse_gated(plan), weights, limits)
    assert "linear_gated" in kernels_of(fused)
    assert "gated" not in kernels_of(fused)
    np.testing.assert_array_equal(logits(fused), logits(apart))


@pytest.mark.parametrize(
    ("ff", "gates", "ups", "stacked"),
    [(512, "Q5_0", "Q8_0", False), (56, "Q5_0", "Q5_0", False), (48, "F32", "F32", True)],
)
def test_what_cannot_be_interleaved_is_computed_one_by_one(ff: int, gates: str, ups: str, stacked: bool) -> None:
    plan, weights = model("silu", ff, gates, ups, "F32", bias=False, stacked=stacked)
    fused = program(CpuBackend(), fuse_gated(plan), weights)
    assert "gated" in kernels_of(fused)
    np.testing.assert_array_equal(logits(fused), logits(program(CpuBackend(), plan, weights)))
