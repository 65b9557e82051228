"""From fields to sampling parameters."""

from __future__ import annotations

import pytest

from pelton.core.sampling_params import SamplingParams
from pelton.errors import RequestError
from pelton.server.sampling_field import SamplingFields, check_answers, to_sampling, truncate

pytestmark = pytest.mark.unit


def test_every_field_arrives() -> None:
    fields = SamplingFields(
        n=2,
        temperature=0.5,
        top_p=0.9,
        top_k=5,
        min_p=0.1,
        seed=7,
        stop=["a", "b"],
        stop_token_ids=[3],
        include_stop_str_in_output=True,
        ignore_eos=True,
        min_tokens=1,
        presence_penalty=0.1,
        frequency_penalty=0.2,
        repetition_penalty=1.1,
        logit_bias={"5": 1.0},
        skip_special_tokens=False,
    )
    assert to_sampling(fields, {}, max_logprobs=20, max_tokens=9, logprobs=3) == SamplingParams(
        n=2,
        temperature=0.5,
        top_p=0.9,
        top_k=5,
        min_p=0.1,
        seed=7,
        stop=("a", "b"),
        stop_token_ids=(3,),
        include_stop_str_in_output=True,
        ignore_eos=True,
        min_tokens=1,
        max_tokens=9,
        presence_penalty=0.1,
        frequency_penalty=0.2,
        repetition_penalty=1.1,
        logit_bias={5: 1.0},
        skip_special_tokens=False,
        logprobs=3,
    )


def test_no_limit_is_the_rest_of_the_context() -> None:
    assert to_sampling(SamplingFields(), {}, max_logprobs=20, max_tokens=None).max_tokens is None


def test_the_servers_own_limit_of_logprobs() -> None:
    with pytest.raises(RequestError, match="at most 3"):
        to_sampling(SamplingFields(), {}, max_logprobs=3, max_tokens=1, logprobs=4)


@pytest.mark.parametrize("key", ["-1", "1.0", "", "\u0661", "9" * 12])
def test_keys_of_biases_are_token_ids(key: str) -> None:
    with pytest.raises(RequestError, match="logit_bias"):
        to_sampling(SamplingFields(logit_bias={key: 1.0}), {}, max_logprobs=3)


def test_counts_are_bounded() -> None:
    check_answers(1024, 4)
    with pytest.raises(RequestError, match="4100 answers"):
        check_answers(1025, 4)
    assert truncate((1, 2, 3), 9) == (1, 2, 3)
    with pytest.raises(RequestError, match="truncate_prompt_tokens"):
        truncate((1, 2), -1)
