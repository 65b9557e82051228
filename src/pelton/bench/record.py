"""A measurement as a dated file: what was measured, where, with which code and command, and the machine's limits then.

Runs after a measurement, never within one. The file is JSON, made to be kept in `benchmarks/` and read in years.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from pelton.bench.calibrate import Calibration
from pelton.bench.machine import Machine
from pelton.errors import ConfigError

Row = dict[str, Any]
SIGNIFICANT_DIGITS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One run of one `pelton bench` command."""

    name: str  # of the command: "kernels"
    day: date
    machine: Machine
    commit: str
    command: str
    calibration_before: Calibration
    calibration_after: Calibration
    rows: tuple[Row, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain values, in the order in which they are read."""
        return {
            "name": self.name,
            "date": self.day.isoformat(),
            "command": self.command,
            "commit": self.commit,
            "machine": self.machine.to_json(),
            "calibration_before": round_figures(self.calibration_before.to_json()),
            "calibration_after": round_figures(self.calibration_after.to_json()),
            "rows": [round_figures(row) for row in self.rows],
        }


def save_record(record: Record, target: Path) -> Path:
    """Write `record` to `target`, or under a dated name of its own if that is a directory; returns the file."""
    path = target if target.suffix == ".json" else find_free_path(target, make_stem(record))
    text = json.dumps(record.to_json(), indent=1)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise ConfigError(
            f"--save: {path} cannot be written ({error.strerror}). Give a directory or a .json file."
        ) from error
    return path


def make_stem(record: Record) -> str:
    """Date, machine and measurement as the beginning of a file name."""
    words = f"{record.machine.cpu_name} {record.machine.num_cores}core {record.name}"
    return f"{record.day.isoformat()}-{re.sub(r'[^a-z0-9]+', '-', words.lower()).strip('-')}"


def find_free_path(folder: Path, stem: str) -> Path:
    """A name in `folder` that no file has: a second measurement of a day does not overwrite the first."""
    names = [f"{stem}.json", *(f"{stem}-{count}.json" for count in range(2, 1000))]
    return next(folder / name for name in names if not (folder / name).exists())


def round_figures(value: Any) -> Any:
    """`value` with every float in it cut to the digits that a measurement has.

    >>> round_figures({"a": [1234.5678, 0.00012345678], "b": 3})
    {'a': [1235.0, 0.0001235], 'b': 3}
    """
    if isinstance(value, float):
        return float(f"{value:.{SIGNIFICANT_DIGITS}g}")
    if isinstance(value, dict):
        return {key: round_figures(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [round_figures(each) for each in value]
    return value
