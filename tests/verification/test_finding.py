"""A verdict never claims more than was looked at."""

from __future__ import annotations

import pytest

from pelton.verification.finding import LEVELS, Finding, declare, judge

pytestmark = pytest.mark.unit
BAD = Finding("L2.NUMBERS:blk.0.ffn_up.weight", "differs")
NOTE = Finding("L0.SOURCE:a", "is another", "note")


def test_a_verdict_follows_from_the_worst_finding() -> None:
    assert judge([], LEVELS, is_bitwise=True) == "LOSSLESS"
    assert judge([NOTE], LEVELS, is_bitwise=False) == "EQUIVALENT"
    assert judge([NOTE, BAD], LEVELS, is_bitwise=True) == "FAILED"
    assert judge(declare([BAD], ["tensor blk.0.ffn_up.weight"]), LEVELS, is_bitwise=False) == "LOSSY-DECLARED"


def test_what_was_not_compared_is_not_verified() -> None:
    assert judge([], ["L0", "L1", "L2"], is_bitwise=True) == "UNVERIFIED"
    assert judge([], ["L0", "L1", "L2", "L3"], is_bitwise=True) == "LOSSLESS"  # equal bits have equal logits
    assert judge([BAD], ["L2"], is_bitwise=True) == "FAILED"


@pytest.mark.parametrize(
    ("lost", "weight"),
    [
        (["tensor blk.0.ffn_up.weight"], "declared"),
        (["blk.0.ffn_up.weight"], "declared"),
        (["tensor blk.0.ffn_up"], "fails"),
        (["tensor blk.1.ffn_up.weight"], "fails"),
        ([], "fails"),
    ],
)
def test_only_what_is_declared_by_name_is(lost: list[str], weight: str) -> None:
    assert [each.weight for each in declare([BAD], lost)] == [weight]
    assert declare([NOTE], ["a"]) == [NOTE]


def test_a_finding_knows_its_level() -> None:
    assert BAD.level == "L2"
