"""Activations in two int8 terms, alone in a linear and through a whole program: closer to float64, bits still fixed."""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from tests.backends.cpu.test_linear import (
    AVAILABLE,
    DENSE,
    QUANTIZED,
    TOLERANCE,
    activations,
    error,
    random_rows,
    row_size,
)
from tests.conformance.scheme import random_weight
from tests.steps import LIMITS, dense_weight, program, step

from pelton.backends.cpu import CpuBackend, _native
from pelton.backends.executable import Backend, Executable
from pelton.backends.reference import ReferenceBackend
from pelton.checkpoint.weight import Weight
from pelton.errors import BackendError
from pelton.plan import Plan, Recorder, Value, WeightRef, ops

pytestmark = pytest.mark.cpu

VOCAB, HIDDEN, HEADS, HEAD_DIM = 40, 64, 2, 32
TOKENS = np.random.default_rng(1).integers(0, VOCAB, 50).tolist()


@pytest.fixture(params=AVAILABLE)
def isa(request: pytest.FixtureRequest) -> Iterator[str]:
    """Runs the test once per instruction set, and leaves the process with the one it had."""
    before = _native.isa()
    _native.set_isa(request.param)
    yield request.param
    _native.set_isa(before)


@pytest.mark.parametrize("scheme", QUANTIZED)
def test_two_terms_err_far_less_than_one(isa: str, scheme: str) -> None:
    n, k = 100, row_size(scheme)
    rows, bias, x = random_rows(scheme, n, k), activations(1, n, 7)[0], activations(41, k)
    expected = x.astype(np.float64) @ _native.dequantize(scheme, rows, k).astype(np.float64).T + bias
    narrow = error(_native.linear(scheme, rows, n, k, x, bias), expected)
    wide = error(_native.linear(scheme, rows, n, k, x, bias, is_wide=True), expected)
    assert 50 * wide < narrow


@pytest.mark.parametrize("scheme", QUANTIZED)
def test_a_wide_row_gives_the_same_bits_alone_and_among_others(isa: str, scheme: str) -> None:
    n, k = 70, row_size(scheme)
    rows, x = random_rows(scheme, n, k), activations(40, k)
    together = _native.linear(scheme, rows, n, k, x, is_wide=True)
    for count in range(1, 41):
        first = 40 - count
        alone = _native.linear(scheme, rows, n, k, x[first:].copy(), is_wide=True)
        np.testing.assert_array_equal(alone, together[first:])


def test_passes_and_threads_do_not_change_the_bits_of_wide_rows(isa: str) -> None:
    n, k = 130, 480
    rows, x = random_rows("Q5_0", n, k), activations(67, k)  # 134 stored rows: a pass of 128 and one of 6
    one_thread = _native.linear("Q5_0", rows, n, k, x, is_wide=True)
    np.testing.assert_array_equal(_native.linear("Q5_0", rows, n, k, x, None, False, 3, is_wide=True), one_thread)
    np.testing.assert_array_equal(_native.linear("Q5_0", rows, n, k, x[64:].copy(), is_wide=True), one_thread[64:])


@pytest.mark.parametrize("scheme", QUANTIZED)
def test_instruction_sets_agree_on_wide_rows(scheme: str) -> None:
    before = _native.isa()
    n, k = 64, row_size(scheme)
    rows, x = random_rows(scheme, n, k), activations(5, k)
    results = []
    for name in AVAILABLE:
        _native.set_isa(name)
        results.append(_native.linear(scheme, rows, n, k, x, is_wide=True))
    _native.set_isa(before)
    for other in results[1:]:
        assert error(other, results[0].astype(np.float64)) < TOLERANCE


@pytest.mark.parametrize("scheme", QUANTIZED)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_shows_in_its_wide_row_and_nowhere_else(isa: str, scheme: str, value: float) -> None:
    k = row_size(scheme)
    rows, x = random_rows(scheme, 64, k), activations(3, k)
    clean = _native.linear(scheme, rows, 64, k, x, is_wide=True)
    x[1, k - 2] = value
    y = _native.linear(scheme, rows, 64, k, x, is_wide=True)
    assert not np.isfinite(y[1]).any()
    np.testing.assert_array_equal(y[[0, 2]], clean[[0, 2]])


@pytest.mark.parametrize(
    ("magnitude", "most"),
    [
        (1e-29, 5e-4),  # smaller ones are stored as zeros
        (1e-20, 5e-4),
        (1e20, 5e-4),
        (1e38, 5e-4),  # 127 times it would be infinite
    ],
)
def test_values_of_any_magnitude(isa: str, magnitude: float, most: float) -> None:
    k = 64
    rows = random_rows("Q8_0", 64, k)
    rows.reshape(64, -1, 34)[:, :, :2] = np.array([1e-4], np.float16).view(np.uint8)  # outputs stay finite
    x = np.random.default_rng(3).uniform(-1, 1, (5, k)).astype(np.float32) * np.float32(magnitude)
    expected = x.astype(np.float64) @ _native.dequantize("Q8_0", rows, k).astype(np.float64).T
    assert error(_native.linear("Q8_0", rows, 64, k, x, is_wide=True), expected) < most


@pytest.mark.parametrize("magnitude", [0.0, 1e-45, 1e-42, 1e-38, 1e-32])
def test_vanishing_values_give_zero(isa: str, magnitude: float) -> None:
    x = np.full((2, 64), magnitude, np.float32)
    y = _native.linear("Q4_0", random_rows("Q4_0", 64, 64), 64, 64, x, is_wide=True)
    np.testing.assert_array_equal(y, np.zeros((2, 64), np.float32))


def test_a_huge_and_a_tiny_value_in_one_group(isa: str) -> None:
    """The group's scale is the huge one's: the tiny one is lost, and nothing else."""
    x = np.full((1, 64), 1e-20, np.float32)
    x[0, 5] = 1e20
    rows = random_rows("Q8_0", 64, 64)
    expected = x.astype(np.float64) @ _native.dequantize("Q8_0", rows, 64).astype(np.float64).T
    assert error(_native.linear("Q8_0", rows, 64, 64, x, is_wide=True), expected) < TOLERANCE


@pytest.mark.parametrize("scheme", DENSE)
def test_dense_weights_take_no_second_term(scheme: str) -> None:
    rows, x = random_rows(scheme, 20, 75), activations(7, 75)
    wide = _native.linear(scheme, rows, 20, 75, x, is_wide=True)
    np.testing.assert_array_equal(wide, _native.linear(scheme, rows, 20, 75, x))


def model(*, has_attention: bool) -> tuple[Plan, dict[str, Weight]]:
    """One layer with weights in Q5_0 between an embedding and a head; keys and values of attention are bfloat16."""
    shapes = {"o": (HIDDEN, HIDDEN), "gate_up": (128, HIDDEN), "down": (HIDDEN, HIDDEN), "head": (VOCAB, HIDDEN)}
    p = Recorder()
    x: Value = ops.embedding(p, p.token_ids, WeightRef("embed", (VOCAB, HIDDEN)))
    if has_attention:
        shapes["qkv"] = (3 * HIDDEN, HIDDEN)
        parts = ops.split(p, ops.linear(p, x, WeightRef("qkv", shapes["qkv"])), (HIDDEN, HIDDEN, HIDDEN))
        q, k, v = (ops.heads(p, part, HEADS) for part in parts)
        x = ops.add(p, x, ops.linear(p, ops.attention(p, q, k, v, 0, scale=1.0), WeightRef("o", shapes["o"])))
    h = ops.gated(p, ops.linear(p, x, WeightRef("gate_up", shapes["gate_up"])), "silu")
    x = ops.add(p, x, ops.linear(p, h, WeightRef("down", shapes["down"])))
    plan = p.plan(ops.linear(p, ops.select_rows(p, x), WeightRef("head", shapes["head"])))
    table = np.random.default_rng(0).normal(size=(VOCAB, HIDDEN)).astype(np.float32)
    random = {name: random_weight(name, np.empty(shapes[name]), "Q5_0") for name in plan.weights() if name != "embed"}
    return plan, {"embed": dense_weight("embed", table), **random}


@cache
def compiled(backend: type[Backend], wide_activations: str, *, has_attention: bool, num_threads: int = 1) -> Executable:
    plan, weights = model(has_attention=has_attention)
    limits = replace(LIMITS, wide_activations=wide_activations, num_threads=num_threads)
    return program(backend(), plan, weights, limits)


def logits(executable: Executable, *requests: tuple[list[int], int], **settings: object) -> np.ndarray:
    found = executable.run(step(requests, **settings), want_logits=True).logits_SV  # type: ignore[arg-type]
    assert found is not None
    return found


def test_the_more_linears_are_wide_the_closer_is_the_program() -> None:
    exact = logits(compiled(ReferenceBackend, "none", has_attention=False), (TOKENS, 0)).astype(np.float64)
    none, head, all_ = (
        error(logits(compiled(CpuBackend, wide, has_attention=False), (TOKENS, 0)), exact)
        for wide in ("none", "head", "all")
    )
    assert head < none
    assert 20 * all_ < none


def test_wide_is_closer_with_attention_too() -> None:
    exact = logits(compiled(ReferenceBackend, "none", has_attention=True), (TOKENS, 0)).astype(np.float64)
    errors = [
        np.square(logits(compiled(CpuBackend, wide, has_attention=True), (TOKENS, 0)) - exact).mean()
        for wide in ("none", "all")
    ]
    assert errors[1] < errors[0]


@pytest.mark.parametrize("wide_activations", ["head", "all"])
def test_bits_of_a_wide_program_do_not_depend_on_chunks_batch_or_threads(wide_activations: str) -> None:
    whole = logits(compiled(CpuBackend, wide_activations, has_attention=True), (TOKENS, 0))
    executable = compiled(CpuBackend, wide_activations, has_attention=True, num_threads=2)
    for chunk in (1, 7, 33):
        pieces = [logits(executable, (TOKENS[i : i + chunk], i)) for i in range(0, len(TOKENS), chunk)]
        np.testing.assert_array_equal(np.concatenate(pieces), whole)
    logits(executable, (TOKENS[:40], 0), block_tables=[[9, 3, 60]])
    batch = ((TOKENS[:9], 0), (TOKENS[40:], 40), (TOKENS[:1], 0))
    together = logits(executable, *batch, block_tables=[[1], [9, 3, 60, 5], [2]])
    np.testing.assert_array_equal(together, np.concatenate((whole[:9], whole[40:], whole[:1])))


def test_an_unknown_choice_is_refused() -> None:
    plan, weights = model(has_attention=False)
    with pytest.raises(BackendError, match=r"wide_activations='some'.*none, likely, head or all"):
        CpuBackend().compile(plan, weights, replace(LIMITS, wide_activations="some"))
