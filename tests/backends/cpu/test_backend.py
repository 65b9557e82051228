"""Whole plans on the native backend: they agree with the reference, and a row's bits depend on the row alone."""

from collections.abc import Iterator
from dataclasses import replace
from functools import reduce

import numpy as np
import pytest
from tests.steps import LIMITS, program, sampling_inputs, step
from tests.tiny_plans import MODELS, VOCAB, TinyPlan, tiny_plan

from pelton.backends.cpu import CpuBackend, get_detected_isa, get_isa, set_isa
from pelton.backends.executable import Executable, Limits
from pelton.backends.reference import ReferenceBackend
from pelton.errors import BackendError, InternalError
from pelton.plan import Plan

pytestmark = pytest.mark.cpu

ISAS = ("generic", "avx2", "avx512")
AVAILABLE = ISAS[: ISAS.index(get_detected_isa()) + 1]
# Keys, values and weights of attention are rounded to bfloat16 by default; with `exact` only sums differ.
TOLERANCE = {False: 2e-2, True: 5e-6}


@pytest.fixture(params=AVAILABLE)
def isa(request: pytest.FixtureRequest) -> Iterator[str]:
    before = get_isa()
    set_isa(request.param)
    yield request.param
    set_isa(before)


def fused(plan: Plan) -> Plan:
    return reduce(lambda plan, rewrite: rewrite(plan), CpuBackend.passes, plan)


def native(tiny: TinyPlan, limits: Limits = LIMITS, num_blocks: int = 64) -> Executable:
    return program(CpuBackend(), fused(tiny.plan), tiny.weights, limits, num_blocks)


def tokens(count: int, seed: int = 0) -> list[int]:
    return np.random.default_rng(seed).integers(0, VOCAB, count).tolist()


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_plans_agree_with_the_reference(name: str, exact: bool, isa: str) -> None:
    tiny = tiny_plan(name)
    oracle = program(ReferenceBackend("float64"), tiny.plan, tiny.weights)
    executable = native(tiny, replace(LIMITS, exact=exact, num_threads=2))
    first, second, third = tokens(33, 1), tokens(7, 2), tokens(1, 3)
    for requests in ([(first[:20], 0), (second, 0)], [(first[20:], 20), (third, 7), (tokens(9, 4), 0)]):
        inputs = step(requests)
        expected = oracle.run(inputs, want_logits=True).logits_SV
        actual = executable.run(inputs, want_logits=True).logits_SV
        assert np.abs(actual - expected).max() <= TOLERANCE[exact] * np.abs(expected).max()


def test_unfused_plans_give_the_same_bits() -> None:
    tiny = tiny_plan("llama_like")
    inputs = step([(tokens(30), 0)])
    plain = program(CpuBackend(), tiny.plan, tiny.weights).run(inputs, want_logits=True)
    assert np.array_equal(plain.logits_SV, native(tiny).run(inputs, want_logits=True).logits_SV)


def in_chunks(executable: Executable, ids: list[int], chunk: int, limits: Limits, blocks: list[int]) -> np.ndarray:
    rows = []
    for start in range(0, len(ids), chunk):
        inputs = step([(ids[start : start + chunk], start)], block_tables=[blocks], limits=limits)
        rows.append(executable.run(inputs, want_logits=True).logits_SV)
    return np.concatenate(rows)


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("name", ["llama_like", "gemma_like"])
def test_a_row_has_the_same_bits_however_it_is_computed(name: str, exact: bool, isa: str) -> None:
    """Alone or in a batch of 32, in chunks of 1, 7 or 64, on one thread, two or five, in whatever blocks."""
    tiny = tiny_plan(name)
    limits = replace(
        LIMITS,
        max_num_batched_tokens=96,
        max_num_requests=32,
        max_num_logits_rows=96,
        max_blocks_per_request=4,
        exact=exact,
    )
    ids = tokens(60)
    executable = native(tiny, limits, num_blocks=160)
    whole = in_chunks(executable, ids, 64, limits, [3, 0, 2, 1])
    assert np.array_equal(in_chunks(executable, ids, 1, limits, [7, 5, 6, 4]), whole)
    assert np.array_equal(in_chunks(executable, ids, 7, limits, [1, 2, 3, 0]), whole)
    two_threads = native(tiny, replace(limits, num_threads=2), num_blocks=160)
    assert np.array_equal(in_chunks(two_threads, ids, 64, limits, [0, 1, 2, 3]), whole)
    five_threads = native(tiny, replace(limits, num_threads=5), num_blocks=160)
    assert np.array_equal(in_chunks(five_threads, ids, 13, limits, [0, 1, 2, 3]), whole)
    for row in (0, 20, 59):
        if row > 0:
            two_threads.run(step([(ids[:row], 0)], block_tables=[[100, 101, 102, 103]], limits=limits))
        batch = [(ids[row : row + 1], row), *((tokens(1 + r % 3, r), 0) for r in range(31))]
        tables = [[100, 101, 102, 103], *([r * 3, r * 3 + 1, r * 3 + 2] for r in range(31))]
        inputs = step(batch, block_tables=tables, limits=limits)
        assert np.array_equal(two_threads.run(inputs, want_logits=True).logits_SV[0], whole[row])


def test_steps_that_do_not_fit_are_refused_before_anything_is_computed() -> None:
    executable = native(tiny_plan("gpt2_like"))
    good = step([([1, 2, 3], 0)])
    for field, value, message in (
        ("token_ids_T", np.array([1, 2, VOCAB], np.int32), "token id 37 is not in the vocabulary"),
        ("positions_T", np.array([0, 1, 3], np.int32), "request 0 has a position out of order"),
        ("block_table_RM", np.full((1, 8), 64, np.int32), "block id that is not in the cache"),
        ("logits_index_S", np.array([0, 1, 3], np.int32), "not a token of the step"),
    ):
        with pytest.raises(InternalError, match=message):
            executable.run(replace(good, **{field: value}))
    history = sampling_inputs(3, history=[[1], [2], [VOCAB]])
    with pytest.raises(InternalError, match="a history id is not in the vocabulary"):
        executable.run(replace(good, sampling=history))
    assert executable.run(good).token_ids_S.shape == (3,)


def test_steps_that_cannot_be_repeated_are_refused() -> None:
    executable = native(tiny_plan("gpt2_like"))
    with pytest.raises(InternalError, match="only a step of one token and one row"):
        executable.run(replace(step([([1, 2, 3], 0)]), repeat=2))
    good = replace(step([([1], 0), ([2], 0)]), repeat=2)
    for change, message in (
        ({"num_logprobs": [1, -1]}, "with log-probabilities cannot be repeated"),
        ({"history": [[1], []]}, "with penalties, biases"),
        ({"bias": [{1: 2.0}, {}]}, "with penalties, biases"),
    ):
        with pytest.raises(InternalError, match=message):
            executable.run(replace(good, sampling=sampling_inputs(2, **change)))
    with pytest.raises(InternalError, match="copied logits cannot be repeated"):
        executable.run(good, want_logits=True)
    with pytest.raises(InternalError, match="is longer than the table of learned positions"):
        executable.run(replace(good, repeat=1000))
    later = executable.run(good).later_ids_KS
    assert later is not None
    assert later.shape == (1, 2)


def test_a_step_without_rows_gives_no_tokens() -> None:
    executable = native(tiny_plan("llama_like"), replace(LIMITS, num_threads=2))
    assert executable.run(step([([1, 2, 3], 0)], logits_index=[]), want_logits=True).logits_SV.shape == (0, VOCAB)


def test_block_sizes_without_a_kernel_are_refused() -> None:
    tiny = tiny_plan("llama_like")
    with pytest.raises(BackendError, match="block_size=24"):
        CpuBackend().compile(tiny.plan, tiny.weights, replace(LIMITS, block_size=24))


def test_explain_names_every_kernel_once() -> None:
    lines = native(tiny_plan("gemma_like")).explain()
    assert {"embedding", "linear", "attention", "rms_norm", "rotary", "softcap"} <= {op for op, _, _ in lines}
    assert len(lines) == len(set(lines))
