"""Times of answers, over all the engines that worked on them."""

from __future__ import annotations

import pytest

from pelton.core.outputs import Timings
from pelton.server.request_times import AnswerTimes, RequestTimes

pytestmark = pytest.mark.unit


def test_what_has_not_happened_has_no_duration() -> None:
    times = RequestTimes.join([Timings(arrival_s=1.0), Timings()])
    assert (times.queue_s, times.prefill_s, times.decode_s) == (None, None, None)
    assert RequestTimes.join([]).queue_s is None


def test_a_request_lasts_from_its_first_answer_to_its_last() -> None:
    times = RequestTimes.join(
        [
            Timings(arrival_s=1.0, first_scheduled_s=4.0, first_token_s=5.0, last_token_s=9.0, num_preemptions=1),
            Timings(arrival_s=1.0, first_scheduled_s=2.0, first_token_s=6.0, last_token_s=7.0, num_preemptions=2),
        ]
    )
    assert (times.queue_s, times.prefill_s, times.decode_s, times.num_preemptions) == (1.0, 3.0, 4.0, 3)


def test_a_clock_that_is_odd_makes_no_negative_duration() -> None:
    assert RequestTimes.join([Timings(arrival_s=2.0, first_scheduled_s=1.0)]).queue_s == 0.0


def test_another_engine_does_not_forget_what_was_before_it() -> None:
    times = AnswerTimes()
    times.take(Timings(arrival_s=1.0, first_scheduled_s=2.0, first_token_s=3.0, last_token_s=4.0, num_preemptions=2))
    for num_preemptions in (0, 1):
        times.take(
            Timings(
                arrival_s=1.0,
                first_scheduled_s=8.0,
                first_token_s=9.0,
                last_token_s=9.0,
                num_preemptions=num_preemptions,
                num_restarts=1,
            )
        )
    assert times.now == Timings(
        arrival_s=1.0, first_scheduled_s=2.0, first_token_s=3.0, last_token_s=9.0, num_preemptions=3, num_restarts=1
    )
