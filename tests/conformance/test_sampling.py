"""Backends choose the same tokens as the reference: random rows, every setting, many ties.

Logits are rows of a table that pass through unchanged, so that all backends sample from the same bits.
"""

import numpy as np
import pytest
from tests.conformance.backends import CANDIDATES, ORACLE, Candidate
from tests.conformance.one_op import LIMITS
from tests.steps import dense_weight, program, sampling_inputs, step

from pelton.backends.executable import SamplingInputs, StepInputs, StepResult
from pelton.plan import Plan, Recorder, WeightRef, ops

pytestmark = pytest.mark.cpu

NUM_ROWS = 48
NATIVE = [candidate for candidate in CANDIDATES if candidate.isa is not None and not candidate.exact]


def table_of(rng: np.random.Generator, vocab_size: int, kind: str) -> np.ndarray:
    """Logits [NUM_ROWS, V]: smooth, or rounded so that most values occur many times, or nearly all the same."""
    logits = rng.normal(0, 3, (NUM_ROWS, vocab_size))
    return {"smooth": logits, "ties": np.round(logits), "flat": np.round(logits / 20)}[kind].astype(np.float32)


def settings_of(rng: np.random.Generator, vocab_size: int) -> SamplingInputs:
    """Settings of NUM_ROWS rows, each neutral in about half of them."""

    def some(values: np.ndarray, neutral: float) -> np.ndarray:
        return np.where(rng.random(NUM_ROWS) < 0.5, values, neutral)

    history = [rng.integers(0, vocab_size, rng.integers(0, 30)).tolist() for _ in range(NUM_ROWS)]
    bias = [
        {int(i): float(rng.choice([-np.inf, 5.0, -3.25])) for i in rng.integers(0, vocab_size, rng.integers(0, 6))}
        for _ in range(NUM_ROWS)
    ]
    return sampling_inputs(
        NUM_ROWS,
        history=history,
        bias=bias,
        num_prompt=[int(rng.integers(0, len(row) + 1)) for row in history],
        temperature=some(rng.uniform(0.2, 2.0, NUM_ROWS), 0.0),
        top_k=some(rng.integers(1, vocab_size + 5, NUM_ROWS), 0),
        top_p=some(rng.uniform(0.05, 1.0, NUM_ROWS), 1.0),
        min_p=some(rng.uniform(0.0, 0.4, NUM_ROWS), 0.0),
        presence=some(rng.uniform(-2, 2, NUM_ROWS), 0.0),
        frequency=some(rng.uniform(-2, 2, NUM_ROWS), 0.0),
        repetition=some(rng.uniform(0.5, 2, NUM_ROWS), 1.0),
        seed=rng.integers(0, 2**64, NUM_ROWS, dtype=np.uint64),
        position=rng.integers(0, 2**40, NUM_ROWS),
        num_logprobs=rng.integers(-1, 8, NUM_ROWS),
    )


def pass_through(vocab_size: int) -> Plan:
    """Token t of the step has row t of the table as its logits."""
    p = Recorder()
    return p.plan(ops.select_rows(p, ops.embedding(p, p.token_ids, WeightRef("table", (NUM_ROWS, vocab_size)))))


def sampled(backend, table: np.ndarray, inputs: StepInputs) -> StepResult:
    weights = {"table": dense_weight("table", table)}
    return program(backend, pass_through(table.shape[1]), weights, LIMITS, num_blocks=16).run(inputs, want_logits=True)


@pytest.mark.parametrize("candidate", NATIVE, ids=str)
@pytest.mark.parametrize("kind", ["smooth", "ties", "flat"])
@pytest.mark.parametrize("vocab_size", [3, 97, 3001])
def test_tokens_and_logprobs_are_those_of_the_reference(candidate: Candidate, kind: str, vocab_size: int) -> None:
    for seed in range(4):
        rng = np.random.default_rng(seed)
        table = table_of(rng, vocab_size, kind)
        inputs = step([(range(NUM_ROWS), 0)], sampling=settings_of(rng, vocab_size), limits=LIMITS)
        expected = sampled(ORACLE, table, inputs)
        with candidate.open() as backend:
            given = sampled(backend, table, inputs)
        assert (expected.token_ids_S != table.argmax(axis=1)).any(), "the settings never matter"
        np.testing.assert_array_equal(given.logits_SV, table)
        np.testing.assert_array_equal(given.token_ids_S, expected.token_ids_S)
        np.testing.assert_array_equal(given.top_ids_SL, expected.top_ids_SL)
        np.testing.assert_allclose(given.logprob_S, expected.logprob_S, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(given.top_logprobs_SL, expected.top_logprobs_SL, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("candidate", NATIVE, ids=str)
def test_poisoned_and_banned_rows_give_no_token(candidate: Candidate) -> None:
    table = np.zeros((NUM_ROWS, 5), np.float32)
    table[0, 2], table[1, 0], table[2, 4] = np.nan, np.inf, -np.inf
    bias = [{}, {}, {}, dict.fromkeys(range(5), -np.inf)] + [{}] * (NUM_ROWS - 4)
    for temperature in (0.0, 1.0):
        sampling = sampling_inputs(NUM_ROWS, bias=bias, temperature=temperature, num_logprobs=2)
        inputs = step([(range(NUM_ROWS), 0)], sampling=sampling, limits=LIMITS)
        expected = sampled(ORACLE, table, inputs)
        with candidate.open() as backend:
            given = sampled(backend, table, inputs)
        assert given.token_ids_S[:4].tolist() == [-1] * 4
        for name in ("token_ids_S", "logprob_S", "top_ids_SL", "top_logprobs_SL"):
            np.testing.assert_allclose(getattr(given, name), getattr(expected, name), rtol=1e-5, err_msg=name)
