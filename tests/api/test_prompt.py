"""The forms of prompts."""

from __future__ import annotations

from typing import Any

import pytest

from pelton.api.prompt import Prompt, parse_prompt, parse_prompts
from pelton.errors import RequestError

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("a", Prompt(text="a")),
        ([1, 2], Prompt(token_ids=(1, 2))),
        ({"prompt": "a"}, Prompt(text="a")),
        ({"prompt_token_ids": (1,)}, Prompt(token_ids=(1,))),
    ],
)
def test_one_prompt_alone_and_in_a_list(given: Any, expected: Prompt) -> None:
    assert parse_prompts(given) == ([expected], True)
    assert parse_prompts([given, given]) == ([expected, expected], False)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (5, "int is not a prompt"),
        ([1.0], "not a prompt"),
        ([True], "not a prompt"),
        ({"prompt": "a", "prompt_token_ids": [1]}, "either"),
        ({}, "either"),
        ({"promt": "a"}, "Did you mean 'prompt'?"),
        ({"prompt": 5}, "wrong type"),
        ({"prompt_token_ids": ["a"]}, "wrong type"),
    ],
)
def test_other_forms_are_refused(given: Any, words: str) -> None:
    with pytest.raises(RequestError) as caught:
        parse_prompt(given)
    assert words in str(caught.value)


def test_a_prompt_in_a_list_is_named() -> None:
    with pytest.raises(RequestError, match=r"prompts\[1\]"):
        parse_prompts(["a", 5])
