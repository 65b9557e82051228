"""Errors as OpenAI clients expect them: {"error": {"message", "type", "param", "code"}} and the right status.

Invariant: what a client sees of an error that is not ours is the request id and nothing else.
"""

from __future__ import annotations

import math
from typing import Any, Final

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from pelton.errors import CapacityError, DeadlineExceeded, EngineError, InternalError, RateLimited, RequestError

_STATUS_MESSAGES = {
    404: "There is nothing at {path}. See /docs for what there is.",
    405: "{method} is not possible at {path}.",
}
CODES: dict[type[EngineError], str] = {
    RateLimited: "rate_limit_exceeded",
    CapacityError: "overloaded",
    DeadlineExceeded: "deadline_exceeded",
}


PIECE_BYTES: Final = 64 * 1024


class JsonResponse(Response):
    """A response with `content` as JSON. A large one leaves in pieces, so that it ends when its client has read it."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """Called by the base class."""
        return msgspec.json.encode(content)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        body = bytes(self.body)
        if len(body) <= PIECE_BYTES:
            await super().__call__(scope, receive, send)
            return
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        for start in range(0, len(body), PIECE_BYTES):
            end = start + PIECE_BYTES
            await send({"type": "http.response.body", "body": body[start:end], "more_body": end < len(body)})


def make_error_body(error: EngineError) -> dict[str, Any]:
    """The JSON of an error."""
    param, code = (error.param, error.code) if isinstance(error, RequestError) else (None, None)
    return {
        "error": {
            "message": str(error),
            "type": error.error_type,
            "param": param,
            "code": code or CODES.get(type(error), error.http_status),
        }
    }


def make_error_response(error: EngineError) -> JsonResponse:
    """The response to an error that happened before anything was sent."""
    headers = {}
    if isinstance(error, CapacityError):
        headers["retry-after"] = str(max(1, math.ceil(error.retry_after_s)))
        headers["retry-after-ms"] = str(max(1, math.ceil(error.retry_after_s * 1000)))
        headers["x-should-retry"] = "false" if isinstance(error, DeadlineExceeded) else "true"
    if error.http_status == 401:
        headers["www-authenticate"] = "Bearer"
    return JsonResponse(make_error_body(error), status_code=error.http_status, headers=headers)


def make_internal_error(request_id: str) -> InternalError:
    """What a client is told about a fault of ours."""
    return InternalError(f"Request {request_id} failed in the server. Please report it.", request_id=request_id)


async def answer_engine_error(_request: Request, error: Exception) -> Response:
    """Exception handler for everything that Pelton raises on purpose."""
    assert isinstance(error, EngineError), "registered for EngineError only"
    return make_error_response(error)


async def answer_http_exception(request: Request, error: Exception) -> Response:
    """Exception handler for what the router raises: no such path, no such method."""
    assert isinstance(error, HTTPException), "registered for HTTPException only"
    known = _STATUS_MESSAGES.get(error.status_code, "{detail}")
    path = request.scope["path"][:200]
    message = known.format(path=path, method=request.method, detail=error.detail)
    body = {"message": message, "type": "invalid_request_error", "param": None, "code": error.status_code}
    return JsonResponse({"error": body}, status_code=error.status_code, headers=dict(error.headers or {}))


async def answer_fault(request: Request, _error: Exception) -> Response:
    """Exception handler for what is our fault; the border logs it."""
    return make_error_response(make_internal_error(request.scope["pelton.request_id"]))
