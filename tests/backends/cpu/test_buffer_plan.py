"""Buffers alive together never overlap; barriers stand wherever threads could meet other threads' rows."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pelton.backends.cpu.buffer_plan import Buffer, NativeOp, View, assign_offsets, find_segments, lowest_gap

pytestmark = pytest.mark.unit


def op(reads_by, writes_by, *buffers):
    return NativeOp(reads_by, writes_by, buffers, lambda *_: None)


def test_ops_on_the_same_rows_need_no_barrier():
    ops = [op("T", "T"), op("T", "T"), op("any", "any"), op("any", "any"), op("T", "T"), op("any", "S"), op("S", "S")]
    assert find_segments(ops) == [0, 0, 1, 2, 3, 4, 4]


def test_rows_of_another_axis_need_one():
    assert find_segments([op("T", "T"), op("S", "S")]) == [0, 1]


def test_memory_is_free_only_after_the_segment_of_the_last_use():
    first, second, third = Buffer(8192), Buffer(8192), Buffer(8192)
    ops = [op("T", "T", first), op("T", "T", second), op("any", "any", third)]
    offsets, size = assign_offsets(ops, find_segments(ops))
    assert offsets[first] != offsets[second], "one thread may still be at the first op while another is at the second"
    assert offsets[third] in (offsets[first], offsets[second])
    assert size == 2 * 8192


def test_views_overlap_only_within_a_buffer():
    buffer = Buffer(4096)
    assert View(buffer, 0, 16, 64).overlaps(View(buffer, 15, 16, 64))
    assert not View(buffer, 0, 16, 64).overlaps(View(buffer, 16, 16, 64))
    assert not View(buffer, 0, 16, 64).overlaps(View(Buffer(4096), 0, 16, 64))


def test_lowest_gap_fills_holes():
    assert lowest_gap(4096, [(0, 4096), (8192, 9000)]) == 4096
    assert lowest_gap(4097, [(0, 4096), (8192, 9000)]) == 12288


@given(st.lists(st.tuples(st.integers(1, 20000), st.integers(0, 12), st.integers(0, 5)), min_size=1, max_size=25))
def test_buffers_that_live_together_do_not_overlap(drawn):
    buffers = [(Buffer(size), first, first + length) for size, first, length in drawn]
    num_ops = max(last for *_, last in buffers) + 1
    ops = [op("any", "any", *(b for b, first, last in buffers if i in (first, last))) for i in range(num_ops)]
    offsets, size = assign_offsets(ops, find_segments(ops))
    for i, (a, a_first, a_last) in enumerate(buffers):
        assert offsets[a] + a.size_bytes <= size
        for b, b_first, b_last in buffers[:i]:
            if a_first <= b_last and b_first <= a_last:
                assert offsets[a] + a.size_bytes <= offsets[b] or offsets[b] + b.size_bytes <= offsets[a]
