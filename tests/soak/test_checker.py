"""The checker notices every kind of violation that is planted into a true history."""

from __future__ import annotations

import copy
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest
from tests.soak.ask import Ask, compute_expected, make_ask
from tests.soak.checker import classify, find_miscounts, find_problems
from tests.soak.client import History

pytestmark = pytest.mark.unit
ASK = Ask(number=1, prompt="hello there", max_tokens=30, n=2, seed=5, tenant="bob", salt="red")


def make_true(ask: Ask = ASK) -> History:
    expected = compute_expected(ask)
    return History(
        ask,
        status=200,
        texts={index: text for index, (text, _) in enumerate(expected)},
        reasons={index: [reason] for index, (_, reason) in enumerate(expected)},
        usage={
            "prompt_tokens": len(ask.prompt),
            "completion_tokens": sum(len(text) for text, _ in expected),
            "prompt_tokens_details": {"cached_tokens": 0},
        },
        num_dones=1,
    )


def test_the_truth_has_no_problems() -> None:
    assert list(find_problems(make_true())) == []
    left = make_true()
    left.has_left, left.num_dones, left.texts[0] = True, 0, left.texts[0][:7]
    assert list(find_problems(left)) == []


def set_text(history: History, index: int, text: str) -> None:
    history.texts[index] = text


def other_tenant(history: History) -> None:
    other = compute_expected(Ask(number=1, prompt="hello there", max_tokens=30, n=2, seed=5, tenant="ann", salt="red"))
    history.texts[0] = other[0][0]


PLANTED: dict[str, Callable[[History], object]] = {
    "a token is lost": lambda h: set_text(h, 0, h.texts[0][:5] + h.texts[0][6:]),
    "a token is repeated": lambda h: set_text(h, 1, h.texts[1][:5] + h.texts[1][4:]),
    "the last token is lost": lambda h: set_text(h, 0, h.texts[0][:-1]),
    "another token": lambda h: set_text(h, 0, "!" + h.texts[0][1:]),
    "answers change places": lambda h: h.texts.update({0: h.texts[1], 1: h.texts[0]}),
    "somebody else's answer": other_tenant,
    "an answer too many": lambda h: set_text(h, 2, "x"),
    "an answer is missing": lambda h: h.texts.pop(1),
    "no reason": lambda h: h.reasons.pop(0),
    "two reasons": lambda h: h.reasons[0].append("length"),
    "the wrong reason": lambda h: h.reasons.update({0: ["stop"]}),
    "no end": lambda h: setattr(h, "num_dones", 0),
    "two ends": lambda h: setattr(h, "num_dones", 2),
    "no usage": lambda h: setattr(h, "usage", None),
    "wrong prompt tokens": lambda h: h.usage.update(prompt_tokens=10),  # type: ignore[union-attr]
    "wrong completion tokens": lambda h: h.usage.update(completion_tokens=59),  # type: ignore[union-attr]
    "too many cached tokens": lambda h: h.usage.update(prompt_tokens_details={"cached_tokens": 11}),  # type: ignore[union-attr]
    "the connection broke": lambda h: setattr(h, "broken", "ConnectionResetError"),
    "a fault of the server": lambda h: (setattr(h, "status", 500), setattr(h, "error", {"code": 500})),
    "an error in the stream": lambda h: setattr(h, "error", {"code": 500}),
    "refused without a time": lambda h: (setattr(h, "status", 503), setattr(h, "error", {"code": "overloaded"})),
    "late without a deadline": lambda h: (
        setattr(h, "status", 504),
        setattr(h, "error", {"code": "deadline_exceeded"}),
    ),
    "never answered": lambda h: setattr(h, "status", 0),
}


@pytest.mark.parametrize("name", PLANTED)
def test_what_is_planted_is_found(name: str) -> None:
    history = copy.deepcopy(make_true())
    PLANTED[name](history)
    assert list(find_problems(history))


def test_a_client_that_dawdles_may_be_cut_off_and_nothing_else() -> None:
    dawdles = replace(ASK, manner="dawdles")
    cut = make_true(dawdles)
    cut.broken, cut.num_dones, cut.texts[0] = "ConnectionResetError", 0, cut.texts[0][:9]
    assert list(find_problems(cut)) == []
    for name, planted in PLANTED.items():
        if name not in ("the connection broke", "never answered"):
            history = make_true(dawdles)
            planted(history)
            assert list(find_problems(history)), name


@pytest.mark.parametrize(
    ("served", "num_unseen", "is_right"),
    [
        ({"stop": 3, "length": 5, "refused": 1}, 0, True),
        ({"stop": 3, "length": 6, "abort": 1, "refused": 1}, 2, True),
        ({"stop": 3, "length": 6, "refused": 1}, 0, False),  # one was counted twice
        ({"stop": 2, "length": 6, "refused": 1}, 1, False),  # one by the wrong reason
        ({"stop": 3, "length": 4, "refused": 1}, 9, False),  # one not at all
        ({"stop": 4, "length": 6, "refused": 2}, 2, False),
    ],
)
def test_counts_of_the_server_are_held_against_those_of_its_clients(
    served: dict[str, float], num_unseen: int, is_right: bool
) -> None:
    assert (not list(find_miscounts(served, Counter(stop=3, length=5, refused=1), num_unseen))) == is_right


def test_refusals_are_no_problems_where_they_are_allowed() -> None:
    history = History(ASK, status=429, headers={"retry-after": "1", "retry-after-ms": "900"})
    history.error = {"code": "rate_limit_exceeded"}
    assert classify(history) == "refused"
    assert list(find_problems(history)) == []
    assert list(find_problems(history, may_refuse=False)) == ["it was refused with 429"]


def test_the_mix_has_everything_in_it() -> None:
    draw = random.Random(1)
    asks = [make_ask(number, draw) for number in range(3000)]
    for name in ("n", "seed", "stop", "stream", "tenant", "salt", "priority", "manner"):
        assert len({getattr(ask, name) for ask in asks}) > 1, name
    assert any(ask.timeout_ms for ask in asks)
    stopped = [ask for ask in asks if any(reason == "stop" for _, reason in compute_expected(ask))]
    assert len(stopped) > 10
    for ask in stopped:
        assert list(find_problems(make_true(ask))) == []
