"""What the oracle says depends on every token, on their order, and on whose they are."""

import pytest

from pelton.oracle.chain import compute_answer

pytestmark = pytest.mark.unit


def test_answers_go_on_where_they_were() -> None:
    prompt = list(b"hello")
    answer = compute_answer(prompt, 12)
    assert compute_answer([*prompt, *answer[:5]], 7) == answer[5:]
    assert set(answer) <= set(range(ord("a"), ord("z") + 1))


def test_everything_matters() -> None:
    answers = {
        tuple(compute_answer(prompt, 20, **whose))
        for prompt in (b"hello", b"hellp", b"ehllo", b"helo", b"hhello")
        for whose in (
            {},
            {"tenant": "a"},
            {"cache_salt": "a"},
            {"tenant": "a", "cache_salt": "a"},
            {"seed": 0},
            {"seed": 1},
            {"seed": -1},
        )
    }
    assert len(answers) == 35


def test_a_stop_token_is_the_last() -> None:
    answer = compute_answer(b"hello", 50)
    stop = answer[3]
    assert compute_answer(b"hello", 50, stop_token_ids=[stop]) == answer[: answer.index(stop) + 1]
