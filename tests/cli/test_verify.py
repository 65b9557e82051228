"""The command: a verdict on the first line, findings below it, an exit code, a report on request."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.models.architectures import make_model

from pelton.cli.main import main

pytestmark = pytest.mark.cpu


def test_the_exit_code_is_the_verdict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("one", "two"):
        make_model("llama", tmp_path / name)
    one, two = str(tmp_path / "one"), str(tmp_path / "two")
    assert main(["verify", one, two, "--report", str(tmp_path / "r.json")]) == 0
    assert capsys.readouterr().out.startswith("LOSSLESS")
    assert json.loads((tmp_path / "r.json").read_text())["verdict"] == "LOSSLESS"
    assert main(["verify", one, two, "--levels", "L1", "--report", str(tmp_path / "r.html")]) == 5
    assert "UNVERIFIED" in (tmp_path / "r.html").read_text()
    path = tmp_path / "two" / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "rms_norm_eps": 1e-2}))
    capsys.readouterr()
    assert main(["verify", one, two, "--levels", "L0,L1"]) == 4
    assert "L1.SPEC:norm_eps" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("flags", "code", "message"),
    [
        (("--levels", "L9"), 2, "'L9' is not one of L0, L1"),
        (("--report", "r.txt"), 2, "neither in .html nor in .json"),
    ],
)
def test_wrong_use_is_one_line(
    flags: tuple[str, ...], code: int, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["verify", str(tmp_path), str(tmp_path), *flags]) == code
    assert message in capsys.readouterr().err
