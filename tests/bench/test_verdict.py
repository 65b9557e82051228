"""Verdicts over blocks that were made up."""

import pytest
from tests.bench.blocks import make_block

from pelton.bench.comparison import Work
from pelton.bench.verdict import judge

pytestmark = pytest.mark.unit
ONE = Work(batch=1, prompt=100, output=50)
EIGHT = Work(batch=8, prompt=100, output=50, depth=300)


def test_each_metric_of_each_work_has_a_verdict() -> None:
    blocks = [make_block(ONE, ours_s=1, theirs_s=ratio) for ratio in (2.0, 3.0, 2.5)]
    blocks += [make_block(EIGHT, ours_s=2, theirs_s=1)]
    found = judge(blocks)
    assert [verdict.title for verdict in found] == [
        "prefill B=1",
        "decode B=1",
        "prefill B=8, depth 300",
        "decode B=8, depth 300",
    ]
    one, eight = found[0], found[3]
    assert one.ratio is not None
    assert (one.ratio.median, one.ratio.low, one.ratio.high) == pytest.approx((2.5, 2.0, 3.0))
    assert (one.our_tokens_per_s, one.their_tokens_per_s) == (100, 40)
    assert (one.num_kept, one.num_dropped, one.states, one.read_bytes_per_s) == (3, 0, "3 far", 50e9)
    assert eight.to_row() == {
        "metric": "decode",
        "batch": 8,
        "depth": 300,
        "ratio": 0.5,
        "ratio_low": None,
        "ratio_high": None,
        "our_tokens_per_s": 100,
        "their_tokens_per_s": 200,
        "blocks_kept": 1,
        "blocks_dropped": 0,
        "states": "1 far",
        "read_gb_per_s": 50,
    }
    assert found[2].our_tokens_per_s == 8 * 400 / 2


def test_dropped_blocks_count_for_nothing_but_their_number() -> None:
    blocks = [make_block(ONE, ours_s=1, theirs_s=2), make_block(ONE, ours_s=1, theirs_s=90, dropped="stolen")]
    prefill, _ = judge(blocks)
    assert prefill.ratio is not None
    assert (prefill.ratio.median, prefill.num_kept, prefill.num_dropped) == (2, 1, 1)


def test_nothing_is_kept() -> None:
    verdict = judge([make_block(ONE, ours_s=1, theirs_s=2, dropped="stolen")])[0]
    assert (verdict.ratio, verdict.our_tokens_per_s, verdict.states) == (None, None, "")
    assert verdict.to_row()["ratio"] is None
