import asyncio
import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from pelton.observability.log import LineFormatter, Log, request_context, setup_logging

pytestmark = pytest.mark.unit


@pytest.fixture(autouse=True)
def _keep_logging() -> Iterator[None]:
    """The root logger is the process's; give it back as it was."""
    root, ours = logging.getLogger(), logging.getLogger("pelton")
    handlers, levels = root.handlers[:], (root.level, ours.level)
    root.handlers = []  # setup_logging closes what it replaces
    yield
    root.handlers = handlers
    root.setLevel(levels[0])
    ours.setLevel(levels[1])


def write(level: str = "info", log_format: str = "text", **fields: Any) -> str:
    stream = io.StringIO()
    setup_logging(level, log_format, stream)
    Log("part").info("it happened", **fields)
    return stream.getvalue()


def test_text_has_time_level_part_event_and_fields():
    line = write(count=3, duration_s=1 / 3, name="two words", empty="")
    assert line[4] == "-"
    assert (
        line.partition("Z ")[2] == 'info    part: it happened count=3 duration_s=0.333333 name="two words" empty=""\n'
    )


def test_json_is_one_object_per_line():
    line = write(log_format="json", count=3, path=["a\nb"])
    row = json.loads(line)
    assert line.count("\n") == 1
    assert {k: row[k] for k in ("level", "part", "event", "count", "path")} == {
        "level": "info",
        "part": "part",
        "event": "it happened",
        "count": 3,
        "path": ["a\nb"],
    }


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_secrets_are_hidden(log_format: str):
    line = write(log_format=log_format, api_key="tell-nobody", Authorization="Bearer tell-nobody")
    assert "tell-nobody" not in line
    assert "(hidden)" in line


@pytest.mark.parametrize("value", ["a\nb", "a\r\n2026 error x: forged", "\x1b[31m", "\u2028", 'say "x"', "a=b"])
def test_a_value_can_neither_break_nor_forge_a_line(value: str):
    line = write(value=value)
    assert line.count("\n") == 1
    assert line[:-1].isprintable()
    assert json.loads(line.partition("value=")[2]) == value


def test_levels_below_the_one_asked_for_are_silent():
    assert write(level="warning") == ""
    assert write(level="debug") != ""


def test_libraries_are_heard_from_warning_on():
    stream = io.StringIO()
    setup_logging("debug", "text", stream)
    logging.getLogger("library").info("chatter")
    logging.getLogger("library").warning("%s is\nodd", "it")
    assert stream.getvalue().partition("Z ")[2] == "warning library: it is\\nodd\n"


def test_the_request_id_follows_tasks():
    stream = io.StringIO()
    setup_logging("info", "text", stream)

    async def work(name: str) -> None:
        with request_context(name):
            await asyncio.gather(asyncio.sleep(0), asyncio.to_thread(Log("part").info, "inside"))

    async def both() -> None:
        await asyncio.gather(work("r1"), work("r2"))

    asyncio.run(both())
    Log("part").info("outside")
    Log("part").info("explicit", request_id="r3")
    lines = stream.getvalue().splitlines()
    assert sorted(line.partition("part: ")[2] for line in lines[:2]) == ["inside request_id=r1", "inside request_id=r2"]
    assert [line.partition("part: ")[2] for line in lines[2:]] == ["outside", "explicit request_id=r3"]


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_an_error_brings_its_traceback(log_format: str):
    stream = io.StringIO()
    setup_logging("info", log_format, stream)
    try:
        raise ValueError("the reason")
    except ValueError as error:
        Log("part").error("it failed", error=error, step=3)
    lines = stream.getvalue().splitlines()
    if log_format == "json":
        assert len(lines) == 1
        assert "ValueError: the reason" in json.loads(lines[0])["traceback"]
    else:
        assert lines[0].endswith("it failed step=3")
        assert lines[-1] == "    ValueError: the reason"


def test_milliseconds_are_rounded_down():
    record = logging.makeLogRecord({"created": 0.9996, "msg": "x", "levelname": "INFO", "name": "pelton.a"})
    assert LineFormatter(is_json=False).format(record) == "1970-01-01T00:00:00.999Z info    a: x"
