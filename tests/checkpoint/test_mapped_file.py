"""A mapped file has a size, views that outlive it, and nothing but regular files."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from tests.file_clock import wait_for_tick

from pelton.checkpoint.mapped_file import Identity, MappedFile
from pelton.errors import CheckpointError

pytestmark = pytest.mark.unit


def test_rows_are_views_that_outlive_the_file(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(bytes(range(10)))
    file = MappedFile(path)
    rows = file.rows(2, 2, 3)
    assert file.size == 10
    assert np.shares_memory(rows, file.data)
    file.close()
    file.close()
    assert rows.tolist() == [[2, 3, 4], [5, 6, 7]]
    with pytest.raises(CheckpointError, match="is closed"):
        _ = file.size


def test_no_rows_at_the_end(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"ab")
    assert MappedFile(tmp_path / "x").rows(2, 0, 16).shape == (0, 16)


def test_a_link_has_the_size_of_its_target(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(bytes(1000))
    (tmp_path / "link").symlink_to("x")
    assert MappedFile(tmp_path / "link").size == 1000


def test_what_is_not_a_regular_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "empty").write_bytes(b"")
    cases = [
        (tmp_path / "none", "there is no such file"),
        (tmp_path / "empty", "is empty"),
        (tmp_path / "pipe", "not a regular file"),
        (tmp_path, "not a regular file"),
        (Path("/dev/zero"), "not a regular file"),
        (tmp_path / ("n" * 300), "cannot be opened"),
        (Path("a\x00b"), "cannot be opened"),
    ]
    for path, message in cases:
        with pytest.raises(CheckpointError, match=message):
            MappedFile(path)


def test_the_identity_of_a_file_changes_with_every_write_even_if_its_time_is_set_back(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"before")
    before, status = MappedFile(path).identity, path.stat()
    assert before == MappedFile(path).identity
    wait_for_tick(path)
    path.write_bytes(b"behind")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    after = MappedFile(path).identity
    assert after.modified_ns == before.modified_ns
    assert after != before


def test_a_file_is_settled_two_seconds_after_its_last_change():
    identity = Identity(device=1, inode=2, size=3, modified_ns=10, changed_ns=20)
    assert not identity.is_settled(20 + 2_000_000_000)
    assert identity.is_settled(21 + 2_000_000_000)
