"""Statistics of a comparison, against values by hand and against what resampling must do."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pelton.bench.ratio import Estimate, estimate_median

pytestmark = pytest.mark.unit
SECONDS = st.floats(0.01, 100)


@given(st.lists(SECONDS, min_size=3, max_size=30))
def test_the_interval_holds_the_median_and_lies_in_the_sample(sample: list[float]) -> None:
    found = estimate_median(sample)
    assert found.low is not None
    assert found.high is not None
    rounding = 1e-9 * max(sample)
    assert min(sample) <= found.low + rounding
    assert found.low - rounding <= found.median <= found.high + rounding
    assert found.high <= max(sample) + rounding


def test_the_interval_narrows_with_more_of_the_same() -> None:
    sample = [1.8, 1.9, 2.0, 2.1, 2.2]
    few, many = estimate_median(sample), estimate_median(sample * 20)
    assert few.median == many.median == 2
    assert few.high is not None
    assert few.low is not None
    assert many.high is not None
    assert many.low is not None
    assert many.high - many.low < few.high - few.low
    assert (few.low, few.high) == (1.8, 2.2), "five blocks: the 2.5th percentile of their medians is an end"


def test_a_sample_that_is_too_small_has_no_interval() -> None:
    assert estimate_median([2.0, 4.0]) == Estimate(3.0, None, None)


def test_the_same_sample_gives_the_same_interval() -> None:
    sample = [1.0, 1.5, 1.2, 1.3]
    assert estimate_median(sample) == estimate_median(sample)
