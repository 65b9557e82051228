"""Who is sent, who is tried alone, and who is to blame."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pelton.core.step import RequestId
from pelton.engine.replay import MAX_FAILURES, MAX_KILLS, MAX_TRIAL_KILLS, Replay

pytestmark = pytest.mark.unit
A, B, C, D = map(RequestId, "abcd")


def test_after_a_kill_from_outside_all_are_sent_at_once() -> None:
    replay = Replay()
    assert replay.down([A, B], {A, B, C}, is_external=True) is None
    assert not replay.is_trying
    assert replay.choose([A, B, C]) == [A, B, C]


def test_suspects_are_tried_alone_and_the_newest_first() -> None:
    replay = Replay()
    replay.down([A, B], {A, B, C}, is_external=False)
    assert replay.choose([A, B, C]) == [B]
    assert replay.choose([A, C]) == []
    assert not replay.answered(A)
    assert replay.answered(B)
    assert replay.choose([A, C]) == [A]
    assert replay.is_trying
    assert replay.down([A], {A, B, C}, is_external=False) == A
    assert replay.choose([B, C]) == [B, C]


def test_a_trial_beside_others_proves_nothing_and_is_repeated_alone() -> None:
    replay = Replay()
    replay.down([A, B], {A, B, C}, is_external=False)
    assert replay.choose([A, B, C]) == [B]
    assert replay.answered(B)
    assert replay.choose([A, C]) == [A]
    assert replay.down([B, A], {A, B, C}, is_external=False) is None
    assert replay.choose([A, B, C]) == [A]
    assert replay.answered(A)
    assert replay.choose([B, C]) == [B]
    assert replay.down([A, B], {A, B, C}, is_external=False) is None
    assert replay.choose([A, B, C]) == [B]
    assert replay.down([B], {A, B, C}, is_external=False) == B


def test_two_that_fail_only_together_are_not_tried_forever() -> None:
    replay, num_failures = Replay(), 1
    replay.down([A, B], {A, B}, is_external=False)
    culprit = None
    while culprit is None:
        (first,) = replay.choose([A, B])
        assert replay.answered(first)
        (second,) = replay.choose([request_id for request_id in (A, B) if request_id != first])
        culprit = replay.down([first, second], {A, B}, is_external=False)
        num_failures += 1
    assert num_failures == MAX_FAILURES


def test_a_kill_from_outside_proves_nothing_about_who_is_tried() -> None:
    replay = Replay()
    replay.down([A], {A, B}, is_external=False)
    assert replay.choose([A, B]) == [A]
    assert replay.down([A], {A, B}, is_external=True) is None
    assert replay.choose([A, B]) == [A]


def test_who_is_killed_from_outside_whenever_it_is_tried_fails_in_the_end() -> None:
    replay = Replay()
    replay.down([A], {A, B}, is_external=False)
    for trial in range(1, MAX_TRIAL_KILLS + 1):
        assert replay.choose([A, B]) == [A]
        assert replay.down([A], {A, B}, is_external=True) == (A if trial == MAX_TRIAL_KILLS else None)
    assert replay.choose([B]) == [B]
    assert not replay.is_trying


def test_a_trial_that_was_not_reached_is_not_to_blame() -> None:
    replay = Replay()
    replay.down([A, B], {A, B, C}, is_external=False)
    assert replay.choose([A, B, C]) == [B]
    assert replay.answered(B)
    assert replay.choose([A, C]) == [A]
    assert replay.down([B], {A, B, C}, is_external=False) is None  # B goes on, and fails at its second token
    assert replay.choose([A, B, C]) == [B]
    assert replay.down([B], {A, B, C}, is_external=False) == B
    assert replay.choose([A, C]) == [A]  # still a suspect: there may be more than one
    assert replay.answered(A)
    assert replay.choose([C]) == [C]


def test_a_token_in_a_trial_forgives_its_kills() -> None:
    replay = Replay()
    for _ in range(3 * MAX_TRIAL_KILLS):
        replay.down([A], {A, B}, is_external=False)
        assert replay.choose([A, B]) == [A]
        assert replay.down([A], {A, B}, is_external=True) is None
        assert replay.choose([A, B]) == [A]
        assert replay.answered(A)


def test_suspects_that_leave_are_skipped() -> None:
    replay = Replay()
    replay.down([A, B, C], {A, B, C, D}, is_external=False)
    assert replay.choose([A, B, D]) == [B]
    assert replay.forget(B)
    assert not replay.forget(D)
    assert replay.choose([D]) == [D]
    assert not replay.is_trying


def test_who_is_there_whenever_it_is_killed_becomes_a_suspect() -> None:
    replay = Replay()
    for _ in range(MAX_KILLS - 1):
        replay.down([A, B], {A, B}, is_external=True)
        assert replay.choose([A, B]) == [A, B]
    replay.forget(B)
    replay.down([A, B], {A, B}, is_external=True)
    assert replay.choose([A, B]) == [A]


def test_who_gets_on_between_kills_is_no_suspect() -> None:
    replay = Replay()
    for _ in range(3 * MAX_KILLS):
        replay.down([A, B], {A, B}, is_external=True, answered={A, B})
        assert replay.choose([A, B]) == [A, B]
    for _ in range(MAX_KILLS - 1):
        replay.down([A, B], {A, B}, is_external=True, answered={B})
        assert not replay.is_trying
        replay.choose([A, B])
    replay.down([A, B], {A, B}, is_external=True, answered={A})
    assert not replay.is_trying


@settings(max_examples=200, deadline=None)
@given(
    num_requests=st.integers(1, 12),
    poison=st.sets(st.integers(0, 11), max_size=3),
    kills=st.lists(st.booleans(), max_size=MAX_TRIAL_KILLS - 1),
    width=st.integers(1, 12),
)
def test_everybody_ends_and_only_poison_is_blamed(
    num_requests: int, poison: set[int], kills: list[bool], width: int
) -> None:
    """An engine that computes the `width` oldest of what it has and fails with poison among them."""
    ids = [RequestId(str(number)) for number in range(num_requests)]
    live, blamed, replay, num_engines = list(ids), set(), Replay(), 0
    while live:
        num_engines += 1
        assert num_engines <= 4 * (num_requests + len(kills) + 1), "it never ends"
        engine: list[RequestId] = []
        while live:
            engine += replay.choose([request_id for request_id in live if request_id not in engine])
            assert engine, "nobody is sent and nobody is tried"
            step = engine[:width]
            is_killed = bool(kills) and kills.pop()
            if is_killed or any(int(request_id) in poison for request_id in step):
                culprit = replay.down(step, set(live), is_external=is_killed)
                if culprit is not None:
                    blamed.add(int(culprit))
                    live.remove(culprit)
                break
            for request_id in step:
                replay.answered(request_id)
                replay.forget(request_id)
                live.remove(request_id)
                engine.remove(request_id)
    assert blamed == poison & set(range(num_requests))
