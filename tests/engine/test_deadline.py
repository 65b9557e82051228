"""Deadlines pass in order, each once."""

import pytest
from tests.engine.fakes import make_request

from pelton.engine.deadline import Deadlines

pytestmark = pytest.mark.unit


def test_deadlines_pass_once_and_in_order() -> None:
    deadlines = Deadlines()
    for name, deadline_s in (("b", 7.0), ("a", 5.0), ("none", 0.0), ("c", 9.0)):
        deadlines.add(make_request(name, deadline_s=deadline_s))
    assert deadlines.take_passed(4.9) == []
    assert deadlines.take_passed(8.0) == [(5.0, "a"), (7.0, "b")]
    assert deadlines.take_passed(8.0) == []
    assert deadlines.take_passed(100.0) == [(9.0, "c")]
