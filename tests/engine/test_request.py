"""Why a request ends, and what the runner is told when it comes back."""

import pytest
from tests.engine.fakes import make_request

from pelton.core.outputs import FinishReason
from pelton.engine.request import Request

pytestmark = pytest.mark.unit


def make(outputs: tuple[int, ...] = (), limit: int = 100, **sampling: object) -> Request:
    return Request(make_request("a", 3, eos=(9,), outputs=outputs, **sampling), 0, limit, 0.0)


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        (make(), None),
        (make((1,)), None),
        (make((1, 9)), "stop"),
        (make((9,), ignore_eos=True), None),
        (make((8,), stop_token_ids=(8,), ignore_eos=True), "stop"),
        (make((9,), min_tokens=1), None),
        (make((1, 9), min_tokens=1), "stop"),
        (make((1, 2), limit=5), "length"),
        (make((1, 9), limit=5), "stop"),
    ],
)
def test_finish_reason(request_: Request, reason: FinishReason | None) -> None:
    assert request_.compute_finish_reason() == reason


def test_counts() -> None:
    request = make((1, 2))
    request.num_computed_tokens = 4
    assert (request.num_prompt_tokens, request.num_tokens, request.num_uncomputed_tokens) == (3, 5, 1)


def test_request_comes_back_with_its_outputs() -> None:
    request = make((1,))
    assert request.make_resumed() is request.new
    request.output_token_ids.append(2)
    assert request.make_resumed().output_token_ids == (1, 2)


def test_order_is_priority_then_arrival() -> None:
    early, late, urgent = (
        Request(make_request("a", priority=priority), sequence, 9, 0.0)
        for sequence, priority in ((0, 0), (1, 0), (2, -1))
    )
    assert sorted([late, urgent, early], key=lambda request: request.order) == [urgent, early, late]
