"""A weight file gives back its bytes, or says how it is damaged: every flipped byte and every length is seen."""

import os

import numpy as np
import pytest

from pelton.backends.cpu.weight_file import (
    ALIGNMENT,
    CHUNK_BYTES,
    Damaged,
    Header,
    Source,
    check_bytes,
    compute_checksums,
    read_header,
    read_into,
    write_file,
)
from pelton.checkpoint.mapped_file import Identity

pytestmark = pytest.mark.cpu

SOURCE = Source("model.gguf", Identity(1, 2, 3, 4, 5), "ab" * 32)
NUM_BYTES = CHUNK_BYTES + 12345


@pytest.fixture
def memory():
    return np.random.default_rng(0).integers(0, 256, NUM_BYTES, dtype=np.uint8)


@pytest.fixture
def path(tmp_path, memory):
    path = tmp_path / "weights"
    with path.open("wb") as file:
        write_file(file.fileno(), Header("key", (SOURCE,), memory.size, compute_checksums(memory)), memory)
    return path


def read(path, num_bytes=NUM_BYTES):
    found = np.zeros(num_bytes, np.uint8)
    fractions: list[float] = []
    with path.open("rb") as file:
        read_into(file.fileno(), found, 2, fractions.append)
    assert fractions == [0.5, 1.0]
    return found


def test_what_is_written_is_read(path, memory):
    assert np.array_equal(read(path), memory)
    with path.open("rb") as file:
        header = check_bytes(file.fileno())
        assert read_header(file.fileno())[1] % ALIGNMENT == 0
    assert header.key == "key"
    assert header.sources == (SOURCE,)


def test_every_flipped_byte_is_seen(path):
    whole = path.read_bytes()
    data_offset = len(whole) - NUM_BYTES
    header_end = len(whole[:data_offset].rstrip(b"\0"))
    places = [*range(0, header_end, 7), data_offset, data_offset + CHUNK_BYTES - 1, data_offset + CHUNK_BYTES]
    for place in [*places, len(whole) - 1]:
        with path.open("r+b") as file:
            os.pwrite(file.fileno(), bytes([whole[place] ^ 0x10]), place)
        with pytest.raises(Damaged):
            read(path)
        with pytest.raises(Damaged), path.open("rb") as file:
            check_bytes(file.fileno())
        with path.open("r+b") as file:
            os.pwrite(file.fileno(), whole[place : place + 1], place)
    assert path.read_bytes() == whole


@pytest.mark.parametrize("size", [0, 7, 48, 100, 4096, -CHUNK_BYTES, -1])
def test_a_truncated_file_is_seen(path, size):
    os.truncate(path, size if size >= 0 else path.stat().st_size + size)
    with pytest.raises(Damaged):
        read(path)


def test_more_bytes_than_were_written_are_seen(path):
    with path.open("ab") as file:
        file.write(b"x")
    with pytest.raises(Damaged, match="expected"):
        read(path)


def test_another_number_of_bytes_is_refused(path):
    with pytest.raises(Damaged, match="the program needs"):
        read(path, NUM_BYTES - 1)


def test_a_length_that_the_file_cannot_hold_is_refused_before_anything_is_read(path):
    with path.open("r+b") as file:
        os.pwrite(file.fileno(), (2**63).to_bytes(8, "little"), 8)
    with pytest.raises(Damaged, match="longer than the file"):
        read(path)
