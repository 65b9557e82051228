"""The ASGI application: every route, and the layers around them, outermost first."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.routing import Route
from starlette.types import ASGIApp

from pelton.errors import EngineError
from pelton.server import prefix, probe
from pelton.server.auth import RequireKey
from pelton.server.border import Border
from pelton.server.browser import RefuseStrangers
from pelton.server.chat import create_chat_completion
from pelton.server.chat_schema import CHAT
from pelton.server.completion import create_completion
from pelton.server.completion_schema import COMPLETION
from pelton.server.docs_page import show_docs, show_openapi
from pelton.server.error_answer import answer_engine_error, answer_fault, answer_http_exception
from pelton.server.field import Schema
from pelton.server.gate import Gate
from pelton.server.prefix_schema import PREFIX
from pelton.server.state import ServerState
from pelton.server.token import detokenize, tokenize
from pelton.server.token_schema import DETOKENIZE, TOKENIZE


class Row(NamedTuple):
    """A route: its handler, what it is for, and its fields where it has a body."""

    method: str
    path: str
    handler: Callable[[Request], Awaitable[Any]]
    about: str
    schema: Schema[Any] | None = None


ROUTES = (
    Row("POST", "/v1/chat/completions", create_chat_completion, "The next message of a conversation.", CHAT),
    Row("POST", "/v1/completions", create_completion, "Text that goes on where a prompt ends.", COMPLETION),
    Row("GET", "/v1/models", probe.models, "The served model, under each of its names."),
    Row("GET", "/v1/models/{model:path}", probe.model, "One name of the served model."),
    Row("POST", "/v1/prefixes", prefix.create_prefix, "Compute a prompt's beginning; keep it under a name.", PREFIX),
    Row("GET", "/v1/prefixes", prefix.list_prefixes, "Your named prefixes."),
    Row("GET", "/v1/prefixes/{name}", prefix.show_prefix, "One of them."),
    Row("DELETE", "/v1/prefixes/{name}", prefix.delete_prefix, "Release one."),
    Row("POST", "/tokenize", tokenize, "Token ids of a text or a conversation.", TOKENIZE),
    Row("POST", "/detokenize", detokenize, "Text of token ids.", DETOKENIZE),
    Row("GET", "/health", probe.health, "200 while the engine makes progress, else 503. Never asks for a key."),
    Row("GET", "/ready", probe.ready, "200 while requests are taken, else 503."),
    Row("GET", "/metrics", probe.metrics, "Prometheus metrics."),
    Row("GET", "/version", probe.version, "The version of Pelton."),
    Row("GET", "/config", probe.config, "Every setting with its value, source and reason."),
)
DOCS_ROUTES = (
    Row("GET", "/openapi.json", show_openapi, "This interface as an OpenAPI document."),
    Row("GET", "/docs", show_docs, "This interface as a page."),
)


def make_app(state: ServerState) -> ASGIApp:
    """The application of one server, as it stands on a port."""
    server = state.config.server
    app: ASGIApp = make_gated_routes(state)
    if state.keys:
        app = RequireKey(app, keys=state.keys)
    else:
        app = RefuseStrangers(app, host=server.host, allowed_origins=server.allowed_origins)
    if server.allowed_origins:
        app = CORSMiddleware(  # outside the key: browsers send none when they ask whether they may
            app,
            allow_origins=list(server.allowed_origins),
            allow_methods=["GET", "POST", "DELETE"],
            allow_headers=["*"],
            expose_headers=["x-request-id"],
        )
    return Border(app, metrics=state.metrics, access_log=state.config.log.access_log, on_end=state.on_request_end)


def make_local_app(state: ServerState) -> ASGIApp:
    """The same routes for calls from this process, which need no key and no line in the log."""
    return Border(make_gated_routes(state), metrics=state.metrics, access_log=False)


def make_gated_routes(state: ServerState) -> ASGIApp:
    """The routes, with room for requests taken in front of them."""
    return Gate(make_routes(state), state=state, paths=frozenset(row.path for row in ROUTES if row.schema is not None))


def make_routes(state: ServerState) -> Starlette:
    """The routes with their handlers, and nothing around them but the answers to errors."""
    rows = ROUTES + (DOCS_ROUTES if state.config.server.docs_page else ())
    app = Starlette(
        routes=[Route(row.path, row.handler, methods=[row.method]) for row in rows],
        exception_handlers={
            EngineError: answer_engine_error,
            HTTPException: answer_http_exception,
            Exception: answer_fault,
        },
    )
    app.router.redirect_slashes = False  # a redirect would repeat whatever host the client wrote
    app.state.pelton = state
    app.state.routes = rows
    return app
