"""Nothing half done ever bears the target's name."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path

import pytest

from pelton.conversion.workplace import make_target
from pelton.errors import CheckpointError

pytestmark = pytest.mark.unit


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def write_and_raise(target: Path, error: Exception, *, force: bool = False) -> None:
    with make_target(target, 1, force=force) as part:
        part.write_bytes(b"x")
        raise error


def test_a_file_and_a_directory_appear_at_the_end(tmp_path: Path) -> None:
    with make_target(tmp_path / "m.gguf", 10, force=False) as part:
        part.write_bytes(b"x")
        assert "m.gguf" not in names(tmp_path)
    with make_target(tmp_path / "model", 10, force=False) as part:
        part.mkdir()
        (part / "a").write_bytes(b"y")
    assert names(tmp_path) == ["m.gguf", "model"]
    assert (tmp_path / "model" / "a").read_bytes() == b"y"


def test_an_error_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(KeyError):
        write_and_raise(tmp_path / "m.gguf", KeyError())
    assert names(tmp_path) == []


def test_what_is_there_stays_unless_it_is_to_be_replaced(tmp_path: Path) -> None:
    target = tmp_path / "model"
    target.mkdir()
    (target / "old").write_bytes(b"")
    with pytest.raises(CheckpointError, match="is there already"), make_target(target, 1, force=False):
        pass
    with pytest.raises(RuntimeError):
        write_and_raise(target, RuntimeError(), force=True)
    assert names(target) == ["old"]
    with make_target(target, 1, force=True) as part:
        part.mkdir()
        (part / "new").write_bytes(b"")
    assert names(target) == ["new"]
    assert names(tmp_path) == ["model"]


def test_what_an_interrupted_one_left_is_removed(tmp_path: Path) -> None:
    left = tmp_path / ".model.partial"
    left.mkdir()
    (left / "half").write_bytes(b"")
    with make_target(tmp_path / "model", 1, force=False) as part:
        part.mkdir()
    assert names(tmp_path) == ["model"]
    assert names(tmp_path / "model") == []


def test_two_at_a_time_are_told_apart(tmp_path: Path) -> None:
    with (
        pytest.raises(CheckpointError, match="somebody else is writing"),
        make_target(tmp_path / "m", 1, force=False),
        make_target(tmp_path / "m", 1, force=False),
    ):
        pass
    assert names(tmp_path) == []


def test_the_disk_is_asked_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=1000))
    with (
        pytest.raises(CheckpointError, match=r"needs 2\.0 KiB, and its disk has"),
        make_target(tmp_path / "m", 2048, force=False),
    ):
        pass
    with pytest.raises(CheckpointError, match="no such directory"), make_target(tmp_path / "x" / "m", 1, force=False):
        pass


def test_a_full_disk_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="No space left"):
        write_and_raise(tmp_path / "m", OSError(errno.ENOSPC, "No space left on device"))
    assert names(tmp_path) == []
