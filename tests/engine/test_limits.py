"""Sizes that contradict each other, and requests that could never run."""

import pytest
from tests.engine.fakes import make_engine, make_limits, make_request

from pelton.engine.limits import check_against_facts, check_request, get_length_limit
from pelton.errors import ConfigError, RequestError, TooLong

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"max_prefill_chunk": 0}, "max_prefill_chunk=0"),
        ({"max_num_requests": 0}, "max_num_requests=0"),
        ({"vocab_size": 0}, "vocab_size=0"),
        ({"max_model_len": 1}, "max_model_len=1"),
        ({"max_num_batched_tokens": 7, "max_num_requests": 8}, "max_num_batched_tokens=7 is less than"),
    ],
)
def test_sizes_that_cannot_work_are_refused(changes: dict[str, int], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make_limits(**changes)


def test_request_without_tokens_is_refused() -> None:
    with pytest.raises(RequestError, match="no tokens") as caught:
        check_request(make_request("a", []), make_limits(), 1000)
    assert caught.value.param == "prompt"


def test_too_long_names_the_limit_that_is_hit() -> None:
    check_request(make_request("a", 99), make_limits(max_model_len=100), 100)
    with pytest.raises(TooLong, match="max_model_len=100") as caught:
        check_request(make_request("a", 100), make_limits(max_model_len=100), 1000)
    assert caught.value.code == "context_length_exceeded"
    with pytest.raises(TooLong, match="whole KV pool holds 64"):
        check_request(make_request("a", 64), make_limits(), 64)


def test_facts_give_the_same_answer_as_the_scheduler() -> None:
    facts = make_engine(16, 4).make_facts()
    check_against_facts(make_request("a", 63), facts)
    with pytest.raises(TooLong, match="whole KV pool holds 64"):
        check_against_facts(make_request("a", 64), facts)


@pytest.mark.parametrize(
    ("max_tokens", "pool", "expected"), [(None, 1000, 256), (4, 1000, 9), (4, 8, 8), (1000, 1000, 256)]
)
def test_length_limit(max_tokens: int | None, pool: int, expected: int) -> None:
    assert get_length_limit(make_request("a", 5, max_tokens), make_limits(), pool) == expected
