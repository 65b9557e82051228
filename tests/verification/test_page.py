"""The page needs nothing else, and no text of a model becomes markup."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest

from pelton.verification.finding import Finding
from pelton.verification.logits import LogitsRecord
from pelton.verification.page import make_page
from pelton.verification.second_reader import SecondReading
from pelton.verification.tensors import TensorRecord
from pelton.verification.texts import TextRecord
from pelton.verification.verify import Report

pytestmark = pytest.mark.unit


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        assert not {"src", "href", "onload"} & {name for name, _ in attrs}


def test_everything_is_on_the_page_and_escaped() -> None:
    report = Report("a<b>", "c", ["L0", "L1", "L2", "L3", "L4", "L5"], verdict="FAILED")
    report.findings = [Finding("L2.NUMBERS:<script>", "<img src=x>")]
    report.numbers = [("norm_eps", 1e-5, 1e-6)]
    report.tensors = [TensorRecord("layers.0.up", ("u",), ("v",), (3, 4), ("F32", "Q8_0"), "different", 0.01, 0.2, 5)]
    report.texts = TextRecord(10, 2, 3, [{"kind": "ids", "of": "<script>", "source": "[1]", "target": "[2]"}])
    report.logits = LogitsRecord({"short": [0.0, 0.5]}, 0.5, 0.0, [0.1, 0.2], 12, 7)
    report.readings = [SecondReading("source", "gguf", 31, 31, 9)]
    page = make_page(report)
    tags = Tags()
    tags.feed(page)
    assert not {"script", "img", "link", "iframe"} & set(tags.seen)
    assert tags.seen.count("svg") == 2
    for text in ("FAILED", "norm_eps", "layers.0.up", "3x4", "50.00 %", "7 of 12 experts", "31", "a&lt;b&gt;"):
        assert text in page
