"""The key of packed weights: equal for equal bytes, another one for everything that could change them."""

import os
import shutil

import numpy as np
import pytest
from tests.backends.cpu.test_linear import AVAILABLE, SCHEMES, random_rows
from tests.file_clock import wait_for_tick

from pelton.backends.cpu import _native, weight_key
from pelton.backends.cpu.weight_key import Placed, compute_key, probe_layout
from pelton.checkpoint.mapped_file import MappedFile
from pelton.checkpoint.weight import Conversion, Tensor

pytestmark = pytest.mark.cpu

ROWS, K, ROW_BYTES = 64, 64, 68
NUM_BYTES = 4 * ROWS * ROW_BYTES
MATRIX = _native.Matrix.__new__(_native.Matrix)  # a key does not look at it


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "model"
    path.write_bytes(random_rows("Q8_0", 4 * ROWS, K).tobytes())
    return path


def tensor(file, index=0, scheme="Q8_0"):
    rows = file.data[index * ROWS * ROW_BYTES : (index + 1) * ROWS * ROW_BYTES].reshape(ROWS, ROW_BYTES)
    return Tensor(f"w{index}", (ROWS, K), scheme, rows)


def key_of(path, *parts, exact=False):
    file = MappedFile(path)
    parts = parts or ((0,), (1,))
    return compute_key([Placed(MATRIX, tuple(tensor(file, i) for i in each)) for each in parts], [file], exact=exact)


def test_the_same_file_and_matrices_have_the_same_key(path):
    assert key_of(path) == key_of(path)


def test_order_interleaving_and_exactness_are_part_of_it(path):
    parts = [((0,), (1,)), ((1,), (0,)), ((0, 1),), ((0,), (2,)), ((0,),)]
    keys = {key_of(path, *each) for each in parts} | {key_of(path, exact=True)}
    assert len(keys) == len(parts) + 1


def test_a_file_that_is_edited_in_place_has_another_key_even_with_its_old_time(path):
    before, times = key_of(path), path.stat()
    wait_for_tick(path)
    with path.open("r+b") as file:  # one byte that no sample sees
        os.pwrite(file.fileno(), b"\x55", 1000)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert path.stat().st_mtime_ns == times.st_mtime_ns
    assert key_of(path) != before


def test_another_file_of_the_same_size_in_its_place_has_another_key(path, tmp_path):
    before, times = key_of(path), path.stat()
    other = tmp_path / "other"
    shutil.copyfile(path, other)
    os.utime(other, ns=(times.st_atime_ns, times.st_mtime_ns))
    os.replace(other, path)
    assert key_of(path) != before


def test_bytes_of_our_own_count_whole(path):
    file, moved = MappedFile(path), random_rows("Q8_0", ROWS, K)
    before = compute_key([Placed(MATRIX, (Tensor("w", (ROWS, K), "Q8_0", moved),))], [file], exact=False)
    moved[40, 40] ^= 1
    assert compute_key([Placed(MATRIX, (Tensor("w", (ROWS, K), "Q8_0", moved),))], [file], exact=False) != before


def test_a_conversion_is_not_made_for_the_key(path):
    file = MappedFile(path)
    sources = tensor(file).sources

    def refuse():
        raise AssertionError("a key must not read the weights")

    converted = [Tensor("w0", (ROWS, K), "Q8_0", Conversion(sources, recipe, refuse)) for recipe in ("one", "other")]
    keys = [compute_key([Placed(MATRIX, (tensor,))], [file], exact=False) for tensor in converted]
    assert len({*keys, key_of(path, (0,))}) == 3


def test_what_packing_makes_is_part_of_it(path, monkeypatch):
    before = key_of(path)
    monkeypatch.setattr(weight_key, "probe_layout", lambda scheme: f"another layout of {scheme}")
    assert key_of(path) != before


@pytest.mark.parametrize("scheme", SCHEMES)
def test_instruction_sets_have_one_layout(scheme):
    before = _native.isa()
    probes = set()
    for name in AVAILABLE:
        _native.set_isa(name)
        probes.add(probe_layout(scheme))
    _native.set_isa(before)
    assert len(probes) == 1


def test_samples_come_from_all_over_the_file(path):
    file = np.array(MappedFile(path).data)
    before = weight_key.sample(file)
    for begin in np.linspace(0, file.size - weight_key.SAMPLE_BYTES, weight_key.NUM_SAMPLES, dtype=np.int64):
        file[begin] ^= 1
        assert weight_key.sample(file) != before
        file[begin] ^= 1
    assert weight_key.sample(file[:10]) != before
