"""Every class of error has its status and OpenAI's shape."""

from __future__ import annotations

import json

import pytest

from pelton import errors
from pelton.server.error_answer import make_error_response, make_internal_error

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("error", "status", "kind", "code"),
    [
        (errors.RequestError("m", param="p", code="c"), 400, "invalid_request_error", "c"),
        (errors.TooLong("m", param="p"), 400, "invalid_request_error", 400),
        (errors.UnknownModel("m", param="p"), 404, "invalid_request_error", 404),
        (errors.Unauthorized("m", param="p"), 401, "authentication_error", 401),
        (errors.CapacityError("m"), 503, "overloaded_error", "overloaded"),
        (errors.RateLimited("m"), 429, "rate_limit_error", "rate_limit_exceeded"),
        (errors.DeadlineExceeded("m"), 504, "timeout_error", "deadline_exceeded"),
        (errors.InternalError("m"), 500, "internal_error", 500),
    ],
    ids=lambda v: type(v).__name__,
)
def test_status_type_and_code(error: errors.EngineError, status: int, kind: str, code: object) -> None:
    response = make_error_response(error)
    assert response.status_code == status
    assert json.loads(response.body) == {
        "error": {
            "message": "m",
            "type": kind,
            "param": "p" if isinstance(error, errors.RequestError) else None,
            "code": code,
        }
    }


def test_when_to_come_back_is_rounded_up() -> None:
    headers = make_error_response(errors.CapacityError("m", retry_after_s=1.2)).headers
    assert (headers["retry-after"], headers["retry-after-ms"]) == ("2", "1200")
    assert make_error_response(errors.CapacityError("m", retry_after_s=0)).headers["retry-after"] == "1"
    assert headers["x-should-retry"] == "true"
    assert make_error_response(errors.DeadlineExceeded("m")).headers["x-should-retry"] == "false"


def test_faults_tell_the_id_only() -> None:
    assert str(make_internal_error("abc")) == "Request abc failed in the server. Please report it."
