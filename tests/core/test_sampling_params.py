"""Every value that no sampler can use is refused, with the field's name."""

import math
from typing import Any

import msgspec
import pytest

from pelton.core.sampling_params import SamplingParams
from pelton.errors import RequestError

pytestmark = pytest.mark.unit

BAD: list[tuple[str, Any]] = [
    ("n", 0),
    ("n", 10**400),
    ("seed", -(10**400)),
    ("temperature", -0.1),
    ("temperature", 2.1),
    ("temperature", math.nan),
    ("temperature", math.inf),
    ("top_p", 0.0),
    ("top_p", 1.1),
    ("top_k", -2),
    ("min_p", 1.5),
    ("presence_penalty", 2.5),
    ("frequency_penalty", -2.5),
    ("repetition_penalty", 0.0),
    ("seed", 2**64),
    ("seed", -(2**63) - 1),
    ("max_tokens", 0),
    ("min_tokens", -1),
    ("min_tokens", 17),
    ("logprobs", 21),
    ("stop", ("",)),
    ("stop", ("x",) * 17),
    ("logit_bias", {5: 101.0}),
    ("logit_bias", {5: math.nan}),
]


@pytest.mark.parametrize(("name", "value"), BAD)
def test_bad_value_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(RequestError, match=name) as caught:
        SamplingParams(**{name: value})
    assert caught.value.param == name


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n", 1),
        ("temperature", 0.0),
        ("temperature", 2.0),
        ("top_p", 1e-9),
        ("top_k", -1),
        ("seed", 2**64 - 1),
        ("seed", -(2**63)),
        ("max_tokens", None),
        ("min_tokens", 16),
        ("logprobs", 0),
        ("logit_bias", {5: -100.0}),
    ],
)
def test_values_at_the_edge_are_taken(name: str, value: Any) -> None:
    assert getattr(SamplingParams(**{name: value}), name) == value


def test_min_tokens_without_max_tokens() -> None:
    assert SamplingParams(max_tokens=None, min_tokens=1000).min_tokens == 1000


@pytest.mark.parametrize(("temperature", "is_greedy"), [(0.0, True), (9e-6, True), (1e-5, False), (1.0, False)])
def test_greedy(temperature: float, is_greedy: bool) -> None:
    assert SamplingParams(temperature=temperature).is_greedy == is_greedy


def test_params_survive_the_wire() -> None:
    params = SamplingParams(
        seed=2**64 - 1, logit_bias={5: -1.5}, stop=("\n", "\u00e9"), stop_token_ids=(1, 2), logprobs=3
    )
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(params), type=SamplingParams) == params
