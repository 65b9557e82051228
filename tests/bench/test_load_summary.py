"""Figures of answers that were made up."""

import pytest

from pelton.bench.load_summary import compute_decode_speed, get_gaps, make_row, summarize
from pelton.bench.stream_client import Answer

pytestmark = pytest.mark.unit


def make_answer(start_s: float, times_s: list[float], *, tokens_per_event: int = 1) -> Answer:
    return Answer(
        start_s,
        times_s=times_s,
        counts=[1] * len(times_s),
        num_prompt_tokens=10,
        num_output_tokens=tokens_per_event * len(times_s),
    )


def test_latencies_and_speed() -> None:
    answers = [make_answer(0.0, [1.0, 2.0, 3.0]), make_answer(0.5, [1.0, 2.0, 4.0])]
    found = summarize(answers, 2)
    assert (found.num_answers, found.num_errors, found.first_error) == (2, 0, None)
    assert (found.ttft_p50_s, found.itl_p50_s, found.e2e_p50_s) == (0.75, 1.0, 3.25)
    assert found.itl_p99_s == pytest.approx(1.97)
    assert (found.duration_s, found.output_tokens_per_s) == (4.0, 1.5)
    assert found.decode_tokens_per_s == 2.0
    assert (found.mean_prompt_tokens, found.mean_output_tokens) == (10, 3)


def test_events_with_several_tokens() -> None:
    assert get_gaps(Answer(0.0, times_s=[1.0, 2.0, 2.5], counts=[3, 2, 1])).tolist() == [0.5, 0.5, 0.5]
    answers = [make_answer(0.0, [1.0, 2.0, 3.0], tokens_per_event=2) for _ in range(2)]
    assert compute_decode_speed(answers, 2) == pytest.approx(4.0)


def test_decode_speed_counts_only_while_all_decode() -> None:
    """A third answer follows the first; two decode from 1 to 3 and from 5 to 6."""
    answers = [
        make_answer(0.0, [1.0, 2.0, 3.0]),
        make_answer(0.0, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
        make_answer(3.0, [5.0, 6.0, 7.0]),
    ]
    assert compute_decode_speed(answers, 2) == pytest.approx(2)
    assert compute_decode_speed(answers, 3) is None
    assert compute_decode_speed(answers, 9) is None


def test_decode_speed_does_not_depend_on_where_in_a_step_the_first_answer_ends() -> None:
    """Three answers, a token each per second, which reach the client one after another."""
    answers = [make_answer(0.0, [late + second for second in range(1, 6)]) for late in (0.0, 0.3, 0.6)]
    assert compute_decode_speed(answers, 3) == pytest.approx(3)


def test_errors_are_counted_and_nothing_else_is_made_of_them() -> None:
    failed = Answer(0.0, error="status 503: full")
    found = summarize([failed, make_answer(1.0, [2.0, 3.0])], 1)
    assert (found.num_answers, found.num_errors, found.first_error) == (1, 1, "status 503: full")
    nothing = summarize([failed], None)
    assert (nothing.num_answers, nothing.ttft_p50_s, nothing.output_tokens_per_s) == (0, None, 0)
    assert make_row(nothing, concurrency=1)["first_error"] == "status 503: full"


def test_a_row_names_what_was_sent_first() -> None:
    row = make_row(summarize([make_answer(0.0, [1.0])], None), rate=2.0)
    assert next(iter(row)) == "rate"
    assert "first_error" not in row
    assert row["itl_p50_s"] is None
