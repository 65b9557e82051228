"""States of processes, from files as Linux writes them."""

from pathlib import Path

import pytest

from pelton.engine.process_state import read_state

pytestmark = pytest.mark.unit


def test_the_name_may_hold_anything(tmp_path: Path) -> None:
    stat = tmp_path / "stat"
    stat.write_bytes(b"123 (a) R (\xff) T 1 123 0")
    assert read_state(stat) == "T"


def test_no_such_process(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        read_state(tmp_path / "stat")
