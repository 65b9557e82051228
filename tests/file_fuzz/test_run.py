"""Some hundred wrong files for each reader; `make fuzz` goes on with others."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from tests.file_fuzz.mutate import CHANGES, mutate
from tests.file_fuzz.run import attack
from tests.file_fuzz.targets import TARGETS, Target

from pelton.errors import CheckpointError

pytestmark = pytest.mark.cpu

NUM_FILES = 250


@pytest.mark.parametrize("name", TARGETS)
def test_wrong_files_are_read_or_refused(name: str, tmp_path: Path) -> None:
    for path, raw in TARGETS[name].files.items():
        (tmp_path / path).write_bytes(raw)
    TARGETS[name].read(tmp_path)  # the files are sound before they are changed
    outcomes = {attack(TARGETS[name], tmp_path, seed) for seed in range(NUM_FILES)}
    assert outcomes - {None}


def test_what_is_no_error_of_ours_comes_out(tmp_path: Path) -> None:
    def fail(_: Path) -> None:
        raise IndexError

    with pytest.raises(IndexError):
        attack(Target(files={"a": b"abc"}, read=fail), tmp_path, 1)


def test_what_takes_too_much_comes_out(tmp_path: Path) -> None:
    def waste(_: Path) -> None:
        bytearray(60 << 20)

    def whisper(_: Path) -> None:
        raise CheckpointError("\x1b[31m")

    for read, message in ((waste, "bytes"), (whisper, "control characters")):
        with pytest.raises(AssertionError, match=message):
            attack(Target(files={"a": b"abc"}, read=read), tmp_path, 1)


def test_every_change_takes_any_file() -> None:
    for seed, change in enumerate(CHANGES * 20):
        for raw in (b"", b"a", bytes(range(200))):
            assert isinstance(change(raw, Random(seed)), bytes)
    assert mutate(bytes(100), Random(1)) == mutate(bytes(100), Random(1))
