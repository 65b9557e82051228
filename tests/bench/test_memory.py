import os
import subprocess
import sys
from pathlib import Path

import pytest

from pelton.bench.memory import list_children, read_peak_bytes

pytestmark = pytest.mark.unit


def make_process(proc: Path, pid: int, parent: int, *, peak_kb: int, command: bytes = b"python\0-m\0x\0") -> None:
    folder = proc / str(pid)
    folder.mkdir(parents=True)
    (folder / "stat").write_text(f"{pid} (a (strange) name) S {parent} 0 0")
    (folder / "status").write_text(f"Name:\tx\nVmHWM:\t{peak_kb} kB\nVmRSS:\t1 kB\n")
    (folder / "cmdline").write_bytes(command)


def test_the_peak_is_the_high_water_mark(tmp_path: Path):
    make_process(tmp_path, 7, 1, peak_kb=12)
    assert read_peak_bytes(7, tmp_path) == 12 * 1024


def test_a_process_that_has_ended_has_none(tmp_path: Path):
    assert read_peak_bytes(8, tmp_path) == 0


def test_this_process_where_there_is_no_proc(tmp_path: Path):
    assert read_peak_bytes(proc=tmp_path) > 1 << 20


def test_this_process():
    assert read_peak_bytes() > 1 << 20


def test_children_and_theirs(tmp_path: Path):
    make_process(tmp_path, 10, 1, peak_kb=1)
    make_process(tmp_path, 11, 10, peak_kb=1, command=b"python\0-m\0engine\0")
    make_process(tmp_path, 12, 11, peak_kb=1)
    make_process(tmp_path, 13, 1, peak_kb=1)
    (tmp_path / "12" / "cmdline").unlink()
    assert list_children(10, tmp_path) == {11: "python -m engine", 12: ""}


def test_a_child_of_this_process():
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        assert "input()" in list_children(os.getpid())[child.pid]
    finally:
        child.communicate(b"\n", timeout=30)
