"""The plot as a document: sound XML, every verdict in its place."""

from xml.etree import ElementTree

import pytest
from tests.bench.blocks import make_block

from pelton.bench.comparison import Work
from pelton.bench.ratio_plot import LABEL_WIDTH, PLOT_WIDTH, draw_ratios, get_range
from pelton.bench.verdict import judge

pytestmark = pytest.mark.unit
SVG = "{http://www.w3.org/2000/svg}"
WORKS = [Work(batch=batch, prompt=100, output=50) for batch in (1, 8)]


def test_points_lie_where_the_scale_says() -> None:
    blocks = [make_block(WORKS[0], ours_s=1, theirs_s=ratio) for ratio in (1.9, 2.0, 2.1)]
    blocks += [make_block(WORKS[1], ours_s=2, theirs_s=1)]
    root = ElementTree.fromstring(draw_ratios("a < b & c", judge(blocks)))
    texts = [element.text for element in root.iter(f"{SVG}text")]
    assert texts[0] == "a < b & c"
    assert "2.00x (1.90-2.10)" in texts
    assert "0.50x" in texts
    x = [float(circle.attrib["cx"]) for circle in root.iter(f"{SVG}circle")]
    assert x[0] == x[1] > x[2] == x[3]
    (equal,) = (line for line in root.iter(f"{SVG}line") if line.attrib["class"] == "e")
    middle = float(equal.attrib["x1"])
    assert x[0] - middle == pytest.approx(middle - x[2], abs=0.2), "twice as fast and half as fast are equally far"
    assert all(LABEL_WIDTH <= each <= LABEL_WIDTH + PLOT_WIDTH for each in x)


def test_a_verdict_without_a_block_says_so() -> None:
    drawn = draw_ratios("t", judge([make_block(WORKS[0], ours_s=1, theirs_s=2, dropped="stolen")]))
    assert "no block kept" in drawn
    assert "<circle" not in drawn


@pytest.mark.parametrize(("theirs_s", "ends"), [(1.2, (0.75, 1.5)), (0.05, (0.025, 1.5)), (30.0, (0.75, 60.0))])
def test_the_scale_holds_every_value_and_equality(theirs_s: float, ends: tuple[float, float]) -> None:
    assert get_range(judge([make_block(WORKS[0], ours_s=1, theirs_s=theirs_s)])) == pytest.approx(ends)
