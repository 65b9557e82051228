"""Sound archives are read; broken ones: tests/attacks/test_pytorch.py."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import pytest
from tests.pytorch_files import Entry, archive

from pelton.checkpoint.mapped_file import MappedFile
from pelton.checkpoint.pytorch.archive import read_archive, read_small
from pelton.errors import CheckpointError

pytestmark = pytest.mark.unit


def open_archive(path: Path, *entries: Entry) -> MappedFile:
    (path / "x").write_bytes(archive(entries))
    return MappedFile(path / "x")


def test_records_are_where_their_bytes_are(tmp_path: Path) -> None:
    file = open_archive(tmp_path, Entry("m/a", b"first", local_extra=b"FB\x02\x00ZZ"), Entry("m/b", b""))
    records = read_archive(file)
    assert {name: record.nbytes for name, record in records.items()} == {"m/a": 5, "m/b": 0}
    assert read_small(file, records, "m/a", 5) == b"first"
    assert read_small(file, records, "m/b", 0) == b""


@pytest.mark.parametrize("layout", ["<4s3I", "<4sI2Q"])
def test_sizes_may_stand_behind_a_record(tmp_path: Path, layout: str) -> None:
    """As PyTorch writes them: zeros in the header, the truth behind the bytes."""
    behind = struct.pack(layout, b"PK\x07\x08", zlib.crc32(b"abc"), 3, 3)
    told = {"flags": 0x808, "crc": 0, "packed": 0, "nbytes": 0}
    file = open_archive(tmp_path, Entry("m/a", b"abc", local=told, central={"flags": 0x808}, behind=behind))
    assert read_small(file, read_archive(file), "m/a", 3) == b"abc"


def test_masked_sizes_stand_in_the_zip64_field(tmp_path: Path) -> None:
    masked = {"packed": 0xFFFFFFFF, "nbytes": 0xFFFFFFFF}
    extra = struct.pack("<2H2Q", 1, 16, 3, 3)
    entry = Entry("m/a", b"abc", local=masked, central=masked, local_extra=extra, central_extra=extra)
    file = open_archive(tmp_path, entry)
    assert read_small(file, read_archive(file), "m/a", 3) == b"abc"


def test_large_records_of_pytorch_leave_a_size_open(tmp_path: Path) -> None:
    """Its writer puts 0 for the packed size into the header, and both into the description behind the record."""
    told = {"flags": 0x808, "crc": 0, "packed": 0, "nbytes": 0}
    masked = {"flags": 0x808, "packed": 0xFFFFFFFF, "nbytes": 0xFFFFFFFF}
    entry = Entry(
        "m/a",
        b"abc",
        local=told,
        central=masked,
        local_extra=struct.pack("<2H2Q", 1, 16, 3, 0),
        central_extra=struct.pack("<2H2Q", 1, 16, 3, 3),
        behind=struct.pack("<4sI2Q", b"PK\x07\x08", zlib.crc32(b"abc"), 3, 3),
    )
    file = open_archive(tmp_path, entry)
    assert read_small(file, read_archive(file), "m/a", 3) == b"abc"


def test_small_records_that_are_not(tmp_path: Path) -> None:
    file = open_archive(tmp_path, Entry("m/a", b"abc"))
    records = read_archive(file)
    with pytest.raises(CheckpointError, match="record 'm/a' has 3 bytes; at most 2 are read"):
        read_small(file, records, "m/a", 2)
    with pytest.raises(CheckpointError, match="has no record 'm/b'"):
        read_small(file, records, "m/b", 2)
