"""The commands in docs/how-to/measure.md are ones that the program understands."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from pelton.bench.kernels.selection import parse_selection
from pelton.cli.bench import MEASUREMENTS, bench

TEXT = (Path(__file__).parents[2] / "docs" / "how-to" / "measure.md").read_text(encoding="utf-8")
COMMANDS = sorted(set(re.findall(r"^pelton bench .*$", TEXT, re.MULTILINE)))

pytestmark = pytest.mark.cpu


@pytest.mark.parametrize("line", COMMANDS)
def test_a_command_is_understood(line: str):
    name, *words = shlex.split(line)[2:]
    command = bench.get_command(click.Context(bench), name)
    assert command is not None
    command.make_context(name, list(words), resilient_parsing=False)
    if name == "kernels":
        parse_selection([word for word in words if not word.startswith("--")])


def test_every_measurement_has_its_place():
    missing = [name for name in MEASUREMENTS if f"`pelton bench {name}" not in TEXT]
    assert not missing
