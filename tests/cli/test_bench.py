import click
import pytest

from pelton.cli.bench import MEASUREMENTS, bench
from pelton.cli.main import main

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("name", MEASUREMENTS)
def test_every_measurement_is_there(name: str):
    command = bench.get_command(click.Context(bench), name)
    assert command is not None
    assert command.help


def test_an_unknown_measurement_is_one_line(capsys: pytest.CaptureFixture[str]):
    assert main(["bench", "ofline"]) == 2
    assert capsys.readouterr().err == "pelton: error: 'ofline' is not a command. Did you mean 'offline'?\n"
