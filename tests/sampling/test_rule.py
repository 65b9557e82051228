"""Seeds are stable and differ, bans are what ends a request."""

import pytest
from tests.engine.fakes import make_request

from pelton.core.sampling_params import SamplingParams
from pelton.sampling.rule import (
    compute_seed,
    get_banned_token_ids,
    get_temperature,
    has_penalties,
)

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(("temperature", "expected"), [(0.0, 0.0), (9e-6, 0.0), (1e-5, 1e-5), (0.7, 0.7)])
def test_small_temperatures_are_greedy(temperature: float, expected: float) -> None:
    assert get_temperature(SamplingParams(temperature=temperature)) == expected


def test_seed_is_the_request_s_own_modulo_64_bits() -> None:
    assert compute_seed(make_request("a", seed=7), 1) == 7
    assert compute_seed(make_request("a", seed=-1), 1) == 2**64 - 1


def test_seed_without_one_follows_from_server_seed_and_id() -> None:
    seed = compute_seed(make_request("a"), 1)
    assert seed == compute_seed(make_request("a", prompt=9, outputs=(1,)), 1)
    assert len({seed, compute_seed(make_request("b"), 1), compute_seed(make_request("a"), 2)}) == 3
    assert seed == 4432693205339462510  # pinned: a change would break resumed streams


def test_banned_ids_are_those_that_would_end_the_request() -> None:
    assert get_banned_token_ids(make_request("a", eos=(9, 3), stop_token_ids=(4,), min_tokens=1)) == (3, 4, 9)
    assert get_banned_token_ids(make_request("a", eos=(9,), stop_token_ids=(4,), min_tokens=1, ignore_eos=True)) == (4,)
    assert get_banned_token_ids(make_request("a", eos=(9,))) == ()


@pytest.mark.parametrize("name", ["presence_penalty", "frequency_penalty", "repetition_penalty"])
def test_penalties(name: str) -> None:
    assert has_penalties(SamplingParams(**{name: 0.5}))
    assert not has_penalties(SamplingParams())
