"""What fills the fields that a request leaves open."""

from __future__ import annotations

import pytest

from pelton.api.generation_default import choose_defaults, make_sampling
from pelton.checkpoint.contract import GenerationDefaults
from pelton.errors import RequestError

pytestmark = pytest.mark.unit
MODEL = GenerationDefaults(temperature=0.6, top_p=0.9, repetition_penalty=1.2)


def test_the_models_own_values_only_under_auto() -> None:
    assert choose_defaults(MODEL, "auto") == {"temperature": 0.6, "top_p": 0.9, "repetition_penalty": 1.2}
    assert choose_defaults(MODEL, "neutral") == {}


def test_what_is_asked_wins() -> None:
    sampling = make_sampling({"temperature": 0.1, "top_p": None}, choose_defaults(MODEL, "auto"))
    assert (sampling.temperature, sampling.top_p) == (0.1, 0.9)


def test_greedy_needs_no_cut() -> None:
    sampling = make_sampling({"temperature": 0}, choose_defaults(MODEL, "auto"))
    assert (sampling.top_p, sampling.repetition_penalty) == (1.0, 1.2)


def test_an_unknown_name_is_an_error_of_the_request() -> None:
    with pytest.raises(RequestError, match="temprature"):
        make_sampling({"temprature": 1.0}, {})
