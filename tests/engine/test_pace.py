"""The pace of prompts follows from the times of steps, on machines that are made up."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pelton.engine.pace import LEAST_CHUNK, UNLIMITED, Pace

pytestmark = pytest.mark.unit


def step_s(num_decoding: int, num_prompt_tokens: int) -> float:
    """Eight milliseconds, one for each request and each token of a prompt."""
    return 0.008 + 0.001 * (num_decoding + num_prompt_tokens)


def settle(pace: Pace, num_decoding: int, rounds: int = 60) -> int:
    for _ in range(3):
        pace.learn(num_decoding, 0, step_s(num_decoding, 0))
    for _ in range(rounds):
        chunk = min(pace.choose(num_decoding), 512)
        pace.learn(num_decoding, chunk, step_s(num_decoding, chunk))
    return pace.choose(num_decoding)


def test_without_times_or_company_there_is_no_limit() -> None:
    pace = Pace(0.0)
    assert pace.choose(8) == UNLIMITED
    pace.learn(8, 0, 0.016)
    assert pace.choose(8) == UNLIMITED  # what prompts cost is not known
    pace.learn(0, 100, 0.1)
    assert pace.choose(0) == UNLIMITED
    assert pace.choose(8) == 16
    assert Pace(math.inf).choose(8) == UNLIMITED
    pace.learn(8, 0, 0.0)


@pytest.mark.parametrize("num_decoding", [1, 8, 32])
def test_a_step_takes_at_most_twice_what_it_takes_without_prompts(num_decoding: int) -> None:
    chunk = settle(Pace(0.0), num_decoding)
    assert chunk >= LEAST_CHUNK
    assert step_s(num_decoding, chunk) <= 2 * step_s(num_decoding, 0) * 1.01
    assert chunk >= step_s(num_decoding, 0) / 0.001 - 8  # and no less than what fits


def test_a_target_is_kept_and_prompts_come_to_an_end() -> None:
    assert settle(Pace(0.050), 8) == 32
    assert settle(Pace(0.001), 8) == LEAST_CHUNK


def test_other_sizes_are_estimated_from_the_nearest() -> None:
    pace = Pace(0.0)
    settle(pace, 4)
    assert pace.choose(5) == pace.choose(4)
    assert pace.estimate_decode_tokens_per_s(4) == pytest.approx(4 / 0.012)
    assert pace.prompt_tokens_per_s == pytest.approx(1000, rel=0.3)
    assert Pace().estimate_decode_tokens_per_s(4) == 0.0
    assert Pace().prompt_tokens_per_s == 0.0


@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 600), st.floats(0, 100)), max_size=40),
    st.sampled_from([0.0, 0.05, math.inf]),
)
def test_whatever_it_learns_prompts_go_on(steps: list[tuple[int, int, float]], target_s: float) -> None:
    pace = Pace(target_s)
    for step in steps:
        pace.learn(*step)
        assert pace.choose(step[0]) >= LEAST_CHUNK
