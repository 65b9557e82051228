"""Which arrays are views of a mapped file, and that advice about its pages changes no bytes."""

import mmap

import numpy as np
import pytest

from pelton.backends.cpu.mapped_pages import find_mapping, read_ahead, release_pages

pytestmark = pytest.mark.unit


@pytest.fixture
def mapped(tmp_path):
    content = np.arange(5 * mmap.PAGESIZE, dtype=np.int64).astype(np.uint8)
    path = tmp_path / "weights"
    path.write_bytes(content.tobytes())
    with path.open("rb") as file:
        mapping = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    return np.frombuffer(mapping, np.uint8), content


def test_a_view_of_a_file_is_found_through_slices_and_shapes(mapped):
    data, _ = mapped
    assert find_mapping(data[100:2100].reshape(20, 100)) is not None
    assert find_mapping(np.zeros(3, np.uint8)) is None


def test_only_whole_pages_inside_the_array_go(mapped):
    data, content = mapped
    view = data[100 : 3 * mmap.PAGESIZE + 50]
    assert release_pages(view) == 2 * mmap.PAGESIZE
    assert np.array_equal(data, content)
    assert release_pages(data[10:20]) == 0


def test_ordinary_memory_is_left_alone():
    assert release_pages(np.zeros(10 * mmap.PAGESIZE, np.uint8)) == 0
    assert read_ahead(np.zeros(10 * mmap.PAGESIZE, np.uint8)) == 0


def test_reading_ahead_takes_in_the_pages_that_an_array_only_touches(mapped):
    data, content = mapped
    assert read_ahead(data[100 : 2 * mmap.PAGESIZE + 50]) == 3 * mmap.PAGESIZE
    assert read_ahead(data[-5:]) == mmap.PAGESIZE
    assert np.array_equal(data, content)
