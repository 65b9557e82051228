"""The likeliest outputs of a head are computed again with 16-bit activations; the others, and all bits, stay put."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from tests.conformance.scheme import random_weight
from tests.steps import LIMITS, dense_weight, program, step

from pelton.backends.cpu import CpuBackend, _native
from pelton.backends.executable import Executable
from pelton.backends.reference import ReferenceBackend
from pelton.checkpoint.weight import Weight
from pelton.plan import Plan, Recorder, WeightRef, ops

pytestmark = pytest.mark.cpu

VOCAB, HIDDEN, RANGE = 1000, 256, 4.0  # RANGE: kRefinedRange
TOKENS = np.random.default_rng(1).integers(0, VOCAB, 40).tolist()


def model(parts: tuple[int, ...], *, bias: bool) -> tuple[Plan, dict[str, Weight]]:
    """An embedding and a head, stacked from parts of so many rows."""
    p = Recorder()
    rows = ops.select_rows(p, ops.embedding(p, p.token_ids, WeightRef("embed", (VOCAB, HIDDEN))))
    x = ops.rms_norm(p, rows, WeightRef("norm", (HIDDEN,)), 1e-6)
    head, bias_ref = WeightRef("head", (VOCAB, HIDDEN)), WeightRef("bias", (VOCAB,)) if bias else None
    plan = p.plan(ops.linear(p, x, head, bias_ref))
    rng = np.random.default_rng(0)
    pieces = tuple(random_weight("head", np.empty((rows, HIDDEN), np.float32), "Q5_0").parts[0] for rows in parts)
    weights = {"embed": dense_weight("embed", rng.normal(size=(VOCAB, HIDDEN))), "head": Weight("head", pieces)}
    weights["norm"] = dense_weight("norm", np.full(HIDDEN, 12.0))  # some strips are near the largest, some are not
    if bias:
        weights["bias"] = dense_weight("bias", rng.normal(size=VOCAB))
    return plan, weights


@cache
def logits_of(wide_activations: str, parts: tuple[int, ...] = (VOCAB,), *, bias: bool = False) -> np.ndarray:
    plan, weights = model(parts, bias=bias)
    limits = replace(LIMITS, wide_activations=wide_activations)
    return logits(program(CpuBackend(), plan, weights, limits), TOKENS)


def logits(executable: Executable, tokens: list[int]) -> np.ndarray:
    found = executable.run(step([(tokens, 0)]), want_logits=True).logits_SV
    assert found is not None
    return found


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("parts", [(VOCAB,), (100, 837, 63)])
def test_strips_near_the_largest_become_those_of_a_wide_head(parts: tuple[int, ...], bias: bool) -> None:
    none, likely, head = (logits_of(wide, parts, bias=bias) for wide in ("none", "likely", "head"))
    first, num_refined, num_left = 0, 0, 0
    bound = none.max(-1, keepdims=True) - RANGE
    for rows in parts:
        for start in range(first, first + rows, 64):
            strip = slice(start, min(start + 64, first + rows))
            is_near = none[:, strip].max(-1) >= bound[:, 0]
            np.testing.assert_allclose(likely[is_near, strip], head[is_near, strip], rtol=1e-5, atol=1e-5)
            np.testing.assert_array_equal(likely[~is_near, strip], none[~is_near, strip])
            num_refined, num_left = num_refined + is_near.sum(), num_left + (~is_near).sum()
        first += rows
    assert num_refined > 0
    assert num_left > 0


def test_likely_tokens_are_nearer_to_the_reference() -> None:
    plan, weights = model((VOCAB,), bias=False)
    exact = logits(program(ReferenceBackend(), plan, weights), TOKENS).astype(np.float64)
    is_likely = exact >= exact.max(-1, keepdims=True) - RANGE / 2
    none, likely = (np.abs(logits_of(wide) - exact)[is_likely].max() for wide in ("none", "likely"))
    assert 20 * likely < none


@pytest.mark.parametrize("num_threads", [1, 3])
def test_a_row_gives_the_same_bits_alone_and_among_others(num_threads: int) -> None:
    plan, weights = model((VOCAB,), bias=False)
    limits = replace(LIMITS, wide_activations="likely", num_threads=num_threads)
    executable = program(CpuBackend(), plan, weights, limits)
    together = logits_of("likely")
    for count in (1, 2, 5, 40):
        np.testing.assert_array_equal(logits(executable, TOKENS[:count]), together[:count])


def test_instruction_sets_refine_alike() -> None:
    before = _native.isa()
    plan, weights = model((VOCAB,), bias=False)
    try:
        for isa in ("generic", "avx2"):
            if isa == "avx2" and _native.detected_isa() == "generic":
                continue
            _native.set_isa(isa)
            executable = program(CpuBackend(), plan, weights, replace(LIMITS, wide_activations="likely"))
            np.testing.assert_allclose(logits(executable, TOKENS), logits_of("likely"), rtol=1e-4, atol=1e-3)
    finally:
        _native.set_isa(before)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_finite_stays_in_its_row(value: float) -> None:
    plan, weights = model((VOCAB,), bias=False)
    table = weights["embed"].parts[0].payload.view(np.float32).copy()
    table[TOKENS[1], 5] = value
    weights["embed"] = dense_weight("embed", table)
    found = logits(program(CpuBackend(), plan, weights, replace(LIMITS, wide_activations="likely")), TOKENS[:3])
    assert not np.isfinite(found[1]).any()
    np.testing.assert_array_equal(found[[0, 2]], logits_of("likely")[[0, 2]])
