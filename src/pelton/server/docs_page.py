"""GET /openapi.json and /docs: the interface, written out of the tables that check requests.

Self-contained: the page loads nothing from anywhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any, Protocol

import msgspec
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from pelton import __version__
from pelton.server.error_answer import JsonResponse
from pelton.server.field import Schema
from pelton.server.state import ServerState

_ERROR = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["message", "type", "param", "code"],
            "properties": {
                "message": {"type": "string"},
                "type": {"type": "string"},
                "param": {"type": ["string", "null"]},
                "code": {"type": ["string", "integer", "null"]},
            },
        }
    },
}


class RouteRow(Protocol):
    """What is read of a route of the application."""

    @property
    def method(self) -> str: ...
    @property
    def path(self) -> str: ...
    @property
    def about(self) -> str: ...
    @property
    def schema(self) -> Schema[Any] | None: ...


async def show_openapi(request: Request) -> Response:
    """The handler of /openapi.json."""
    return JsonResponse(make_openapi(request.app.state.routes))


async def show_docs(request: Request) -> Response:
    """The handler of /docs."""
    state: ServerState = request.app.state.pelton
    return HTMLResponse(make_page(request.app.state.routes, state.model_name))


def make_openapi(rows: Sequence[RouteRow]) -> dict[str, Any]:
    """The OpenAPI 3.1 document of these routes."""
    paths: dict[str, Any] = {}
    components: dict[str, Any] = {"Error": _ERROR}
    for row in rows:
        path = re.sub(r":path}", "}", row.path)
        operation: dict[str, Any] = {
            "summary": row.about,
            "responses": {
                "200": {"description": "OK"},
                "default": {
                    "description": "An error",
                    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
                },
            },
        }
        names = re.findall(r"{(\w+)}", path)
        if names:
            parameter = {"in": "path", "required": True, "schema": {"type": "string"}}
            operation["parameters"] = [{"name": name, **parameter} for name in names]
        if row.schema is not None:
            schema, parts = make_json_schema(row.schema)
            name = row.schema.works.__name__
            components |= parts
            components[name] = schema
            content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{name}"}}}
            operation["requestBody"] = {"required": True, "content": content}
        paths.setdefault(path, {})[row.method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {"title": "Pelton", "version": __version__},
        "paths": paths,
        "components": {"schemas": components, "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}}},
    }


def make_json_schema(schema: Schema[Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The JSON schema of a route's body, and the schemas it refers to."""
    (reference,), parts = msgspec.json.schema_components([schema.works], ref_template="#/components/schemas/{name}")
    own = parts.pop(reference["$ref"].rpartition("/")[2])
    properties = {name: {**about, "description": schema.about[name]} for name, about in own["properties"].items()}
    properties |= {name: {"description": f"Without effect: {why}"} for name, why in schema.without_effect.items()}
    return {**own, "properties": properties, "required": list(schema.required), "additionalProperties": False}, parts


def make_page(rows: Sequence[RouteRow], model_name: str) -> str:
    """The page: every route, every field with what it does here."""
    body = "".join(_describe_route(row) for row in rows)
    links = " ".join(f'<a href="#{_anchor(row)}">{escape(row.path)}</a>' for row in rows)
    return _PAGE.format(version=escape(__version__), model=escape(model_name), links=links, body=body)


def _anchor(row: RouteRow) -> str:
    return re.sub(r"[^a-z]+", "-", row.path.lower()).strip("-")


def _describe_route(row: RouteRow) -> str:
    head = f'<h2 id="{_anchor(row)}"><code>{row.method} {escape(row.path)}</code></h2><p>{escape(row.about)}</p>'
    if row.schema is None:
        return head
    return head + "".join(_describe_fields(row.schema))


def _describe_fields(schema: Schema[Any]) -> Iterator[str]:
    yield _table("Fields", schema.about)
    if schema.without_effect:
        yield _table("Taken, without effect", schema.without_effect)
    if schema.refused:
        yield _table("Refused", {name: refused.why for name, refused in schema.refused.items()})


def _table(title: str, rows: Mapping[str, str]) -> str:
    cells = "".join(f"<tr><td><code>{escape(k)}</code></td><td>{escape(v)}</td></tr>" for k, v in sorted(rows.items()))
    return f"<h3>{title}</h3><table>{cells}</table>"


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Pelton</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 56rem; margin: 2rem auto; padding: 0 1rem; }}
table {{ border-collapse: collapse; width: 100%; }}
td {{ border-bottom: 1px solid #8884; padding: .25rem .5rem .25rem 0; vertical-align: top; }}
td:first-child {{ width: 16rem; }} nav a {{ margin-right: 1rem; }}
@media (prefers-color-scheme: dark) {{ body {{ background: #111; color: #ddd; }} a {{ color: #8bf; }} }}
</style></head><body>
<h1>Pelton {version}</h1>
<p>This server answers for the model <code>{model}</code> in the shapes of the OpenAI API.
The same as <a href="openapi.json">OpenAPI</a>.</p>
<nav>{links}</nav>
{body}
</body></html>
"""
