"""The tables of fields: works, without effect, refused, unknown."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from openai.types import completion_create_params as completion_params
from openai.types.chat import completion_create_params as chat_params

from pelton.errors import RequestError
from pelton.server.chat_schema import CHAT
from pelton.server.completion_schema import COMPLETION
from pelton.server.field import Refused, Schema

pytestmark = pytest.mark.unit


class Body(msgspec.Struct, kw_only=True):
    text: str | None = None
    count: int | None = None
    inner: dict[str, list[float]] | None = None


SCHEMA: Schema[Body] = Schema(
    works=Body,
    about={"text": "A text.", "count": "A count.", "inner": "Numbers."},
    required=("text",),
    without_effect={"user": "Nobody knows it."},
    refused={"magic": Refused("there is none.", (False, 1))},
)


def test_known_fields() -> None:
    body, ignored = SCHEMA.parse({"text": "a", "count": None, "user": 5, "magic": None})
    assert (body.text, body.count, ignored) == ("a", None, [])
    SCHEMA.parse({"text": "a", "magic": False})


@pytest.mark.parametrize(
    ("raw", "param", "message"),
    [
        (5, None, "The body is a number, expected a JSON object."),
        ({"count": 1}, "text", "text: it is missing. A text."),
        ({"text": 1}, "text", "text: expected str | null, got int."),
        ({"text": "a", "count": 1.5}, "count", "count: expected int | null, got float."),
        ({"text": "a", "inner": {"x": ["y"]}}, "inner", "inner[...][0]: expected float, got str."),
        ({"text": "a", "magic": True}, "magic", "magic: there is none."),
        ({"text": "a", "magic": 0}, "magic", "magic: there is none."),
        ({"text": "a", "conut": 1}, "conut", "'conut' is not a known field. Did you mean 'count'?"),
        ({"text": "a", "qqq": 1}, "qqq", "'qqq' is not a known field. See /docs for the known ones."),
        (
            {"text": "a", "x" * 99: 1},
            "x" * 64 + "...",
            f"'{'x' * 64}...' is not a known field. See /docs for the known ones.",
        ),
    ],
    ids=str,
)
def test_refusals_name_the_field(raw: Any, param: str | None, message: str) -> None:
    with pytest.raises(RequestError) as caught:
        SCHEMA.parse(raw)
    assert (str(caught.value), caught.value.param) == (message, param)


def test_unknown_fields_can_be_ignored_but_not_refused_ones() -> None:
    body, ignored = SCHEMA.parse({"text": "a", "conut": 1}, ignore_unknown=True)
    assert (body.count, ignored) == (None, ["conut"])
    with pytest.raises(RequestError):
        SCHEMA.parse({"text": "a", "magic": True}, ignore_unknown=True)


@pytest.mark.parametrize(
    ("schema", "official"),
    [(CHAT, chat_params.CompletionCreateParamsBase), (COMPLETION, completion_params.CompletionCreateParamsBase)],
    ids=["chat", "completions"],
)
def test_every_field_of_the_official_client_is_known(schema: Schema[Any], official: type) -> None:
    assert set(official.__annotations__) | {"stream"} <= schema.known
