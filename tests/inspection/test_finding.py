from pathlib import Path

import pytest

from pelton.inspection.finding import KINDS, SEVERITIES, Finding

pytestmark = pytest.mark.unit
PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "inspect.md"


def test_kinds_have_what_a_reader_needs() -> None:
    for id_, kind in KINDS.items():
        area, _, what = id_.partition(".")
        assert area, id_
        assert what, id_
        assert kind.severity in SEVERITIES
        assert kind.advice.endswith("."), id_
        assert not kind.title.endswith("."), id_


def test_every_kind_is_in_the_document_and_no_other() -> None:
    text = PAGE.read_text(encoding="utf-8").partition("## What may be found")[2]
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    assert rows == [f"| `{id_}` | {kind.severity} | {kind.title} | {kind.advice} |" for id_, kind in KINDS.items()]


def test_an_id_that_is_not_in_the_table() -> None:
    with pytest.raises(AssertionError, match=r"files\.none"):
        Finding("files.none", "x")
