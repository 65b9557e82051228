"""The pace of prompts follows from the times of steps, on machines that are made up."""

import math
import random

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
    assert pace.choose(8) == 12
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


def test_other_sizes_are_estimated_from_those_around_them() -> None:
    pace = Pace(0.0)
    settle(pace, 4)
    assert pace.choose(1) == pace.choose(5) == pace.choose(4)
    for size in (8, 12):
        pace.learn(size, 0, step_s(size, 0))
    for size in (6, 10, 20):
        expected = size / step_s(size, 0)
        assert pace.estimate_decode_tokens_per_s(size) == pytest.approx(expected, rel=0.02)


def test_beyond_what_is_known_a_step_grows_in_proportion_at_most() -> None:
    pace = Pace(0.0)
    pace.learn(2, 0, 0.001)
    pace.learn(4, 0, 0.004)
    assert pace.estimate_decode_tokens_per_s(8) == pytest.approx(8 / 0.008)
    pace.learn(6, 0, 0.0005)
    assert pace.estimate_decode_tokens_per_s(8) == pytest.approx(8 / 0.0005)


def test_sizes_that_never_come_without_prompts_are_learned_with_them() -> None:
    pace = Pace(0.0)
    pace.learn(0, 100, step_s(0, 100))
    pace.learn(1, 0, step_s(1, 0))
    draw = random.Random(1)
    for _ in range(400):
        size = draw.choice((8, 9))
        chunk = min(pace.choose(size), draw.choice((5, 40, 500)))  # the ends of prompts are shorter
        pace.learn(size, chunk, step_s(size, chunk))
    assert pace.estimate_decode_tokens_per_s(8) == pytest.approx(8 / step_s(8, 0), rel=0.2)
    assert pace.prompt_tokens_per_s == pytest.approx(1000, rel=0.2)
    first = Pace(0.0)
    first.learn(0, 100, 0.1)
    first.learn(4, 50, 0.062)
    assert first.estimate_decode_tokens_per_s(4) == pytest.approx(4 / 0.012)


def test_prompts_that_become_dearer_leave_streams_as_they_were() -> None:
    pace = Pace(0.0)
    settle(pace, 32)
    before = pace.choose(32)
    for number in range(200):
        chunk = pace.choose(32)
        took_s = step_s(32, 0) + chunk * 0.001 * (1 + number / 100)
        pace.learn(32, chunk, took_s)
        assert took_s <= 2 * step_s(32, 0) * 1.1
    assert LEAST_CHUNK <= pace.choose(32) < before / 2
    assert pace.estimate_decode_tokens_per_s(32) == pytest.approx(32 / step_s(32, 0))


def test_while_others_wait_a_step_may_take_twice_what_it_takes_with_them() -> None:
    pace = Pace(0.0)
    settle(pace, 8)
    settle(pace, 2)
    assert step_s(2, pace.choose(2)) <= 2 * step_s(2, 0) * 1.05
    assert 1.5 * step_s(8, 0) < step_s(2, pace.choose(2, 6)) <= 2 * step_s(8, 0) * 1.05
    asked = Pace(0.05)
    settle(asked, 8)
    assert asked.choose(8, 100) == asked.choose(8)


def test_speeds_of_nothing_are_not_known() -> None:
    pace = Pace(0.0)
    settle(pace, 4)
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
