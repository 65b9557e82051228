import pytest

from pelton.inspection.finding import KINDS, SEVERITIES, Finding

pytestmark = pytest.mark.unit


def test_kinds_have_what_a_reader_needs() -> None:
    for id_, kind in KINDS.items():
        area, _, what = id_.partition(".")
        assert area, id_
        assert what, id_
        assert kind.severity in SEVERITIES
        assert kind.advice.endswith("."), id_
        assert not kind.title.endswith("."), id_


def test_an_id_that_is_not_in_the_table() -> None:
    with pytest.raises(AssertionError, match=r"files\.none"):
        Finding("files.none", "x")
