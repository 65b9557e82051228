import pytest

from pelton import __version__
from pelton.cli.main import main

pytestmark = pytest.mark.unit


def test_version(capsys: pytest.CaptureFixture[str]):
    assert main(["version"]) == 0
    assert capsys.readouterr().out.startswith(f"pelton {__version__} (Python 3.")
