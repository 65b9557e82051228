"""A soak of some seconds: the engine is killed twice under load, and nobody can tell from the answers."""

import pytest
from tests.soak.report import make_figures, make_page
from tests.soak.run import run

pytestmark = pytest.mark.cpu  # real processes


def test_nothing_is_lost_wrong_or_left() -> None:
    soak = run(0.2, kill_every_s=5.0)
    figures = make_figures(soak)
    assert soak.problems == [], make_page(figures, soak.problems)
    assert figures["kills"] >= 1
    assert figures["engine_restarts"] >= figures["kills"]
    assert soak.kinds["ok"] > 100
    assert soak.kinds["lost"] == 0
    assert soak.recoveries_s
