"""The one tree of exceptions. The class decides the HTTP status and the exit code, and nothing else does.

    EngineError                        500, exit 1
      ConfigError                      400, exit 2    a flag, a file or the environment
      RequestError                     400, exit 2    what a client sent
        TooLong                        400            more tokens than the model or the pool can hold
        UnknownModel                   404
        UnknownPrefix                  404
        Unauthorized                   401
        Forbidden                      403
        BadGrammar                     400
        BodyTooLarge                   413
        BodyTooSlow                    408
        WrongContentType               415
      CapacityError                    503, exit 75   the server cannot take it now; carries retry_after_s
        RateLimited                    429            this tenant's share is used up
        DeadlineExceeded               504
      CheckpointError                  500, exit 65   a file is damaged, unknown or contradicts another
      BackendError                     500, exit 69   this machine cannot run it
      TransferError                    500, exit 69   between processes or machines
      InternalError                    500, exit 70   our fault; carries request id and step

A message says where, what was given, what is expected and what to do, in one or two sentences.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class EngineError(Exception):
    """The root: everything Pelton raises on purpose."""

    http_status = 500
    exit_code = 1
    error_type = "internal_error"


class ConfigError(EngineError):
    """A flag, a configuration file or an environment variable is wrong."""

    http_status = 400
    exit_code = 2
    error_type = "invalid_request_error"


class RequestError(EngineError):
    """A client asked for something that cannot be done. `param` names the field, where there is one."""

    http_status = 400
    exit_code = 2
    error_type = "invalid_request_error"

    def __init__(self, message: str, *, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.param = param
        self.code = code


class TooLong(RequestError):
    """The prompt, or prompt and output together, exceed what the model or the KV pool can hold."""


class UnknownModel(RequestError):
    """The request names a model that this server does not serve."""

    http_status = 404


class UnknownPrefix(RequestError):
    """The caller has given no prefix this name, or its time is over."""

    http_status = 404


class Unauthorized(RequestError):
    """The API key is missing or wrong."""

    http_status = 401
    error_type = "authentication_error"


class Forbidden(RequestError):
    """A web page, or a name of this machine that is not known, may not use a server that asks for no key."""

    http_status = 403
    error_type = "permission_error"


class BadGrammar(RequestError):
    """A grammar, schema or regular expression cannot be compiled."""


class BodyTooLarge(RequestError):
    """The body of a request has more bytes than the server takes."""

    http_status = 413


class BodyTooSlow(RequestError):
    """The body of a request did not arrive in time."""

    http_status = 408


class WrongContentType(RequestError):
    """The body of a request is said to be something else than JSON."""

    http_status = 415


class CapacityError(EngineError):
    """The server cannot take the request now. `retry_after_s` says when it is worth another try."""

    http_status = 503
    exit_code = 75
    error_type = "overloaded_error"

    def __init__(self, message: str, *, retry_after_s: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class RateLimited(CapacityError):
    """The caller's own share is used up."""

    http_status = 429
    error_type = "rate_limit_error"


class DeadlineExceeded(CapacityError):
    """The request's deadline passed before it could be finished."""

    http_status = 504
    error_type = "timeout_error"


class CheckpointError(EngineError):
    """A model file is damaged, of an unknown kind, or contradicts another file."""

    exit_code = 65


class BackendError(EngineError):
    """This machine, or this build, cannot run what was asked."""

    exit_code = 69


class TransferError(EngineError):
    """Two processes or machines failed to hand something over."""

    exit_code = 69


class InternalError(EngineError):
    """Something that should be impossible happened. Please report it with the request id and the step."""

    exit_code = 70

    def __init__(self, message: str, *, request_id: str | None = None, step: int | None = None) -> None:
        super().__init__(message)
        self.request_id = request_id
        self.step = step


def nearest(given: str, known: Iterable[str]) -> str:
    """A sentence that helps after an unknown name: the closest known one, or all of them.

    >>> nearest("temprature", ["temperature", "top_p"])
    "Did you mean 'temperature'?"
    >>> nearest("zzz", ["b", "a"])
    'Known: a, b.'
    """
    names = sorted(known)
    close = difflib.get_close_matches(given, names, n=1)
    return f"Did you mean {close[0]!r}?" if close else f"Known: {', '.join(names)}."
