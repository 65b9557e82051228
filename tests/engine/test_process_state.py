"""States of processes, from files as Linux writes them."""

import sys
from pathlib import Path

import pytest

from pelton.engine.process_state import read_is_dumping, read_state

pytestmark = pytest.mark.unit


def test_the_name_may_hold_anything(tmp_path: Path) -> None:
    stat = tmp_path / "stat"
    stat.write_bytes(b"123 (a) R (\xff) T 1 123 0")
    assert read_state(stat) == "T"


@pytest.mark.parametrize(("value", "is_dumping"), [("1", True), ("0", False)])
def test_core_dumps(tmp_path: Path, value: str, is_dumping: bool) -> None:
    status = tmp_path / "status"
    status.write_bytes(
        b"Name:\tCoreDumping: 1\xff\nState:\tS (sleeping)\nCoreDumping:\t%s\nThreads:\t1\n" % value.encode()
    )
    assert read_is_dumping(status) == is_dumping


@pytest.mark.skipif(sys.platform != "linux", reason="Linux only")
def test_linux_has_the_line() -> None:
    assert "CoreDumping:\t0\n" in Path("/proc/self/status").read_text()


def test_no_such_process(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        read_state(tmp_path / "stat")
