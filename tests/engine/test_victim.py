"""Who gives way."""

import pytest
from tests.engine.fakes import make_request

from pelton.engine.request import Request
from pelton.engine.victim import MAX_PREEMPTIONS, choose_victim

pytestmark = pytest.mark.unit


def make(sequence: int, computed: int, *, priority: int = 0, preemptions: int = 0) -> Request:
    request = Request(make_request(str(sequence), 20, priority=priority), sequence, 100, 0.0)
    request.num_computed_tokens, request.num_preemptions = computed, preemptions
    return request


def test_the_first_is_never_taken() -> None:
    assert choose_victim([]) is None
    assert choose_victim([make(0, 1)]) is None


def test_class_then_least_computed_then_youngest() -> None:
    running = [make(0, 0), make(1, 9), make(2, 5), make(3, 5), make(4, 12, priority=1)]
    assert choose_victim(running) is running[4]
    assert choose_victim(running[:4]) is running[3]


def test_nobody_gives_way_too_often() -> None:
    running = [make(0, 0), make(1, 9), make(2, 5, preemptions=MAX_PREEMPTIONS)]
    assert choose_victim(running) is running[1]
    assert choose_victim([running[0], running[2]]) is None
