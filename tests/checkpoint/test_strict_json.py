"""JSON that a lenient parser would accept is refused where it could mean two things."""

from __future__ import annotations

from pathlib import Path

import pytest

from pelton.checkpoint.strict_json import load_object, parse_object
from pelton.errors import CheckpointError

pytestmark = pytest.mark.unit


def test_an_object() -> None:
    assert parse_object(b'{"a": [1, {"b": null}], "c": "\\u00e9"}', "x") == {"a": [1, {"b": None}], "c": "\u00e9"}


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", "not valid JSON"),
        (b"[1]", "holds a list; expected an object"),
        (b"null", "expected an object"),
        (b'{"a": 1} x', "not valid JSON"),
        (b'\xef\xbb\xbf{"a": 1}', "not valid JSON"),
        (b'{"a": "\xff"}', "not valid UTF-8"),
        ("{}".encode("utf-16"), "not valid UTF-8"),
        (b'{"a": {"b": 1, "b": 1}}', "'b' stands in an object twice"),
        (b'{"a": Infinity}', "Infinity is not a JSON number"),
        (b'{"a": ' + b"9" * 5000 + b"}", "not valid JSON"),
        (b'{"a":' * 100_000, "nested too deeply"),
    ],
)
def test_what_is_refused(raw: bytes, message: str) -> None:
    with pytest.raises(CheckpointError, match=f"x: .*{message}"):
        parse_object(raw, "x")


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    with pytest.raises(CheckpointError, match="no such file"):
        load_object(path)
    path.write_text('{"a": 1}')
    assert load_object(path) == {"a": 1}
    with path.open("wb") as file:
        file.truncate((64 << 20) + 1)
    with pytest.raises(CheckpointError, match="at most 67108864 are read"):
        load_object(path)
