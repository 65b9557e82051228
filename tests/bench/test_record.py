import json
from datetime import date
from pathlib import Path

import pytest
from tests.bench.calibrations import make_calibration

from pelton.bench.machine import Machine
from pelton.bench.record import Record, make_stem, save_record
from pelton.errors import ConfigError

pytestmark = pytest.mark.unit

RECORD = Record(
    name="kernels",
    day=date(2030, 1, 31),
    machine=Machine(cpu_name="A Chip (TM) 9", num_cores=2, num_cpus=4, memory_bytes=1 << 30, isa="avx2"),
    commit="abc123",
    command="pelton bench kernels",
    calibration_before=make_calibration(),
    calibration_after=make_calibration(state="near"),
    rows=({"op": "linear", "time_s": 0.123456789},),
)


def test_a_directory_gets_a_dated_file_each_time(tmp_path: Path):
    folder = tmp_path / "not" / "there"
    first, second = save_record(RECORD, folder), save_record(RECORD, folder)
    assert first == folder / "2030-01-31-a-chip-tm-9-2core-kernels.json"
    assert second == folder / "2030-01-31-a-chip-tm-9-2core-kernels-2.json"


def test_a_file_is_what_it_says(tmp_path: Path):
    path = tmp_path / "mine.json"
    assert save_record(RECORD, path) == path
    found = json.loads(path.read_text())
    assert list(found) == [
        "name", "date", "command", "commit", "machine", "calibration_before", "calibration_after", "rows",
    ]  # fmt: skip
    assert found["rows"] == [{"op": "linear", "time_s": 0.1235}]
    assert found["machine"]["cpu_name"] == "A Chip (TM) 9"
    assert (found["calibration_before"]["state"], found["calibration_after"]["state"]) == ("far", "near")


def test_a_file_that_cannot_be_written(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"^--save: .* cannot be written \(.+\)\. Give a directory or a \.json file"):
        save_record(RECORD, tmp_path / "file" / "below.json")


def test_the_name_is_lower_case_words():
    assert make_stem(RECORD) == "2030-01-31-a-chip-tm-9-2core-kernels"
