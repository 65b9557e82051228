from pathlib import Path

import pytest
from tests.fakes import TinyModel

from pelton.bench.host_text import measure_events, measure_text
from pelton.checkpoint.checkpoint import open_checkpoint

pytestmark = pytest.mark.cpu  # the chat template runs in a process of its own


def test_a_row_for_each_cost_of_text(tmp_path: Path):
    with open_checkpoint(TinyModel().write(tmp_path / "tiny")) as checkpoint:
        rows = list(measure_text(checkpoint, "def f(x):\n    return x + 1  # caf\u00e9\n" * 20))
    assert [row["what"] for row in rows] == [
        "tokenize", "detokenize", "chat template, first", "chat template", "stream event",
    ]  # fmt: skip
    assert all(row["us"] > 0 for row in rows)
    assert rows[0]["mb_per_s"] > 0


def test_the_event_of_a_token():
    assert measure_events(num_tokens=2)["us"] > 0
