"""Nothing half done ever bears the target's name."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path

import pytest

from pelton.conversion.workplace import check_target, make_target
from pelton.errors import CheckpointError

pytestmark = pytest.mark.unit


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def write_and_raise(target: Path, error: BaseException, key: str = "k") -> None:
    with make_target(target, key) as part:
        part.write_bytes(b"x")
        raise error


def test_a_file_and_a_directory_appear_at_the_end(tmp_path: Path) -> None:
    with make_target(tmp_path / "m.gguf", "k") as part:
        part.write_bytes(b"x")
        assert "m.gguf" not in names(tmp_path)
    with make_target(tmp_path / "model", "k") as part:
        part.mkdir()
        (part / "a").write_bytes(b"y")
        (part / "a.note").write_text("1")
    assert names(tmp_path) == ["m.gguf", "model"]
    assert names(tmp_path / "model") == ["a"]


def test_an_error_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(KeyError):
        write_and_raise(tmp_path / "m.gguf", KeyError())
    with pytest.raises(KeyboardInterrupt):
        write_and_raise(tmp_path / "m.gguf", KeyboardInterrupt())
    assert names(tmp_path) == []


def test_what_has_reached_the_disk_is_taken_up_by_the_same_conversion(tmp_path: Path) -> None:
    (tmp_path / ".m.partial.note").write_text("1")
    (tmp_path / ".m.partial.key").write_text("k")
    with pytest.raises(KeyboardInterrupt):
        write_and_raise(tmp_path / "m", KeyboardInterrupt())
    assert names(tmp_path) == [".m.partial", ".m.partial.key", ".m.partial.note"]
    with make_target(tmp_path / "m", "k") as part:
        assert part.read_bytes() == b"x"
    assert names(tmp_path) == ["m"]


def test_what_another_conversion_left_is_removed(tmp_path: Path) -> None:
    left = tmp_path / ".model.partial"
    left.mkdir()
    (left / "half").write_bytes(b"")
    (tmp_path / ".model.partial.key").write_text("other")
    with make_target(tmp_path / "model", "k") as part:
        assert not part.exists()
        part.mkdir()
    assert names(tmp_path) == ["model"]
    assert names(tmp_path / "model") == []


def test_a_model_is_replaced_and_stays_until_the_end(tmp_path: Path) -> None:
    target = tmp_path / "model"
    target.mkdir()
    (target / "config.json").write_bytes(b"")
    with pytest.raises(CheckpointError, match="is there already"):
        check_target(tmp_path / "x", target, 1, force=False)
    check_target(tmp_path / "x", target, 1, force=True)
    with pytest.raises(RuntimeError):
        write_and_raise(target, RuntimeError())
    assert names(target) == ["config.json"]
    with make_target(target, "k") as part:
        part.mkdir()
        (part / "new").write_bytes(b"")
    assert names(target) == ["new"]
    assert names(tmp_path) == ["model"]


def test_not_everything_is_replaced(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "m.gguf").write_bytes(b"")
    with pytest.raises(CheckpointError, match="holds or lies in the source"):
        check_target(home / "m.gguf", home, 1, force=True)
    with pytest.raises(CheckpointError, match="holds or lies in the source"):
        check_target(home / "m.gguf", home / "m.gguf", 1, force=True)
    with pytest.raises(CheckpointError, match="a directory of something else"):
        check_target(tmp_path / "n.gguf", home, 1, force=True)


def test_two_at_a_time_are_told_apart(tmp_path: Path) -> None:
    with (
        pytest.raises(CheckpointError, match="somebody else is writing"),
        make_target(tmp_path / "m", "k"),
        make_target(tmp_path / "m", "k"),
    ):
        pass
    assert names(tmp_path) == []


def test_the_disk_is_asked_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=1000))
    with pytest.raises(CheckpointError, match=r"needs 2\.0 KiB, and its disk has"):
        check_target(tmp_path / "x", tmp_path / "m", 2048, force=False)
    (tmp_path / ".m.partial").write_bytes(bytes(2000))  # will be continued or removed
    check_target(tmp_path / "x", tmp_path / "m", 2048, force=False)
    with pytest.raises(CheckpointError, match="no such directory"):
        check_target(tmp_path / "y", tmp_path / "x" / "m", 1, force=False)


def test_a_full_disk_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="No space left"):
        write_and_raise(tmp_path / "m", OSError(errno.ENOSPC, "No space left on device"))
    assert names(tmp_path) == []
