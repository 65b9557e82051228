"""A file that was interrupted is taken up where it is known to be whole, and ends up with the same bytes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from pelton.checkpoint import tensor_file
from pelton.checkpoint.outgoing import Outgoing
from pelton.checkpoint.tensor_file import note_of, write_tensor_file
from pelton.checkpoint.weight import Bytes
from pelton.errors import CheckpointError

pytestmark = pytest.mark.unit

HEADER = b"header"


class Interruption(Exception):
    """The program ends here."""


def make_tensors(log: list[int], stop: int | None = None) -> list[Outgoing]:
    def make(index: int) -> Callable[[], Bytes]:
        def rows() -> Bytes:
            if index == stop:
                raise Interruption
            log.append(index)
            return np.full((1, 10), index, np.uint8)

        return rows

    return [Outgoing(str(index), (10,), "U8", make(index)) for index in range(6)]


def write(path: Path, log: list[int], stop: int | None = None) -> None:
    write_tensor_file(path, HEADER, make_tensors(log, stop), alignment=16, is_resumable=True)


@pytest.fixture
def expected(tmp_path: Path) -> bytes:
    write_tensor_file(tmp_path / "whole", HEADER, make_tensors([]), alignment=16)
    return (tmp_path / "whole").read_bytes()


def test_nothing_that_is_on_the_disk_is_made_again(
    tmp_path: Path, expected: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tensor_file, "STEP_BYTES", 32)
    path, first, second = tmp_path / "m", list[int](), list[int]()
    with pytest.raises(Interruption):
        write(path, first, stop=4)
    write(path, second)
    assert (first, second) == ([0, 1, 2, 3], [4, 5])
    assert path.read_bytes() == expected
    third: list[int] = []
    write(path, third)
    assert third == []
    assert path.read_bytes() == expected


@pytest.mark.parametrize("note", ["", "x", "-1", "7", "6", "99999"])
def test_a_note_that_cannot_be_true_is_not_believed(note: str, tmp_path: Path, expected: bytes) -> None:
    path = tmp_path / "m"
    path.write_bytes(b"nonsense")
    note_of(path).write_text(note)
    write(path, log := [])
    assert path.read_bytes()[len(HEADER) :] == expected[len(HEADER) :]
    assert log == [0, 1, 2, 3, 4, 5]


def test_small_files_are_begun_anew(tmp_path: Path, expected: bytes) -> None:
    path, log = tmp_path / "m", list[int]()
    with pytest.raises(Interruption):
        write(path, [], stop=5)
    write(path, log)
    assert log == [0, 1, 2, 3, 4, 5]
    assert path.read_bytes() == expected
    assert not note_of(path).exists()


def test_a_file_that_is_there_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "m").write_bytes(b"")
    with pytest.raises(FileExistsError):
        write_tensor_file(tmp_path / "m", HEADER, make_tensors([]))


def test_tensors_have_the_bytes_that_they_claim(tmp_path: Path) -> None:
    tensor = Outgoing("x", (4,), "F32", lambda: np.zeros((1, 8), np.uint8))
    with pytest.raises(CheckpointError, match=r"'x' has 8 bytes; F32 of shape \[4\] takes 16"):
        write_tensor_file(tmp_path / "m", HEADER, [tensor])
