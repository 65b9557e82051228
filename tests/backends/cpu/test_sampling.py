"""Native sampling gives the reference's tokens and log-probabilities, row by row, for every setting."""

import math
from collections.abc import Iterator

import numpy as np
import pytest
from tests.steps import program, sampling_inputs, step

from pelton.backends.cpu import CpuBackend, get_detected_isa, get_isa, set_isa
from pelton.backends.executable import Executable, Limits
from pelton.backends.reference.sampling import sample
from pelton.checkpoint.weight import Tensor, Weight
from pelton.plan import Recorder, WeightRef, ops

pytestmark = pytest.mark.cpu

ISAS = ("generic", "avx2", "avx512")
AVAILABLE = ISAS[: ISAS.index(get_detected_isa()) + 1]


@pytest.fixture(params=AVAILABLE)
def isa(request: pytest.FixtureRequest) -> Iterator[str]:
    before = get_isa()
    set_isa(request.param)
    yield request.param
    set_isa(before)


def sampler(logits: np.ndarray) -> tuple[Executable, Limits]:
    """A program whose logits of token t are row t of `logits`."""
    num_rows, vocab_size = logits.shape
    limits = Limits(
        max_num_batched_tokens=num_rows,
        max_num_requests=1,
        max_num_logits_rows=num_rows,
        block_size=16,
        max_blocks_per_request=-(-num_rows // 16),
        num_threads=2,
    )
    table = Tensor("logits", logits.shape, "F32", logits.astype(np.float32).view(np.uint8))
    p = Recorder()
    plan = p.plan(ops.select_rows(p, ops.embedding(p, p.token_ids, WeightRef("logits", (num_rows, vocab_size)))))
    return program(CpuBackend(), plan, {"logits": Weight("logits", (table,))}, limits, num_blocks=8), limits


def check_against_reference(logits: np.ndarray, **settings) -> np.ndarray:
    executable, limits = sampler(logits)
    sampling = sampling_inputs(len(logits), **settings)
    inputs = step([(list(range(len(logits))), 0)], limits=limits, sampling=sampling)
    given = executable.run(inputs)
    expected = sample(logits.astype(np.float32), sampling, want_logits=False)
    assert given.token_ids_S.tolist() == expected.token_ids_S.tolist()
    np.testing.assert_allclose(given.logprob_S, expected.logprob_S, rtol=1e-6, atol=1e-6)
    assert given.top_ids_SL.tolist() == expected.top_ids_SL.tolist()
    np.testing.assert_allclose(given.top_logprobs_SL, expected.top_logprobs_SL, rtol=1e-6, atol=1e-6)
    return given.token_ids_S


def random_logits(num_rows: int = 40, vocab_size: int = 1013, deviation: float = 3.0) -> np.ndarray:
    """Rounded to quarters, so that ties are everywhere."""
    rng = np.random.default_rng(vocab_size)
    return (np.round(rng.normal(0, deviation, (num_rows, vocab_size)) * 4) / 4).astype(np.float32)


@pytest.mark.parametrize("vocab_size", [5, 16, 37, 1013])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"temperature": 1.0},
        {"temperature": 0.3},
        {"temperature": 0.9, "top_k": 1},
        {"temperature": 1.3, "top_k": 7},
        {"temperature": 1.0, "top_p": 0.6},
        {"temperature": 2.0, "top_p": 0.97},
        {"temperature": 1.0, "min_p": 0.2},
        {"temperature": 1.0, "min_p": 1.0},
        {"temperature": 1.5, "min_p": 0.01, "top_k": 20, "top_p": 0.9},
        {"temperature": 1.0, "top_k": 5000, "top_p": 1e-6},
    ],
    ids=str,
)
def test_tokens_are_those_of_the_reference(settings, vocab_size, isa) -> None:
    logits = random_logits(vocab_size=vocab_size)
    rows = np.arange(len(logits))
    check_against_reference(logits, seed=rows * 2**40 + 7, position=rows * 3, num_logprobs=rows % 7 - 1, **settings)


def test_bias_and_penalties_are_those_of_the_reference(isa) -> None:
    rng = np.random.default_rng(3)
    logits = random_logits(vocab_size=301)
    history = [rng.integers(0, 40, rng.integers(0, 60)).tolist() for _ in logits]
    num_prompt = [int(rng.integers(0, len(ids) + 1)) for ids in history]
    bias = [{int(i): float(rng.choice([-math.inf, 3.0, -2.5])) for i in rng.integers(0, 301, 9)} for _ in logits]
    for temperature in (0.0, 0.8):
        check_against_reference(
            logits,
            temperature=temperature,
            history=history,
            num_prompt=num_prompt,
            bias=bias,
            repetition=rng.uniform(0.5, 2.0, len(logits)),
            presence=rng.uniform(-2, 2, len(logits)),
            frequency=rng.uniform(-2, 2, len(logits)),
            num_logprobs=3,
            seed=5,
            position=np.arange(len(logits)),
        )


def test_rows_that_are_banned_or_not_finite_give_no_token(isa) -> None:
    logits = random_logits(num_rows=5, vocab_size=33)
    logits[1, 32], logits[2, 5], logits[3, 0] = math.nan, math.inf, -math.inf
    nothing = dict.fromkeys(range(33), -math.inf)
    for temperature in (0.0, 1.0):
        chosen = check_against_reference(
            logits, temperature=temperature, bias=[{}, {}, {}, {}, nothing], num_logprobs=2
        )
        assert chosen[0] >= 0
        assert chosen[1:].tolist() == [-1, -1, -1, -1]


def test_far_apart_logits_are_drawn_without_overflow(isa) -> None:
    logits = np.zeros((4, 200), np.float32)
    logits[:, 77] = [3e38, 1e30, 800.0, 100.0]
    assert check_against_reference(logits, temperature=1.0).tolist() == [77] * 4
