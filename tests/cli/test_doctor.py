import json
from dataclasses import replace
from pathlib import Path

import pytest
from tests.config.facts import MACHINE

from pelton.cli import doctor
from pelton.cli.main import main
from pelton.config.env import get_environment

pytestmark = pytest.mark.unit


@pytest.fixture(autouse=True)
def _empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PELTON_CACHE", str(tmp_path / "not-there-yet"))


def test_without_a_model_it_tells_of_the_machine(capsys: pytest.CaptureFixture[str]):
    assert main(["doctor"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition("  ")[0] for line in lines] == [
        *("pelton", "processor", "cores", "instruction set", "kernels", "memory", "huge pages", "cache"),
        *("models in the cache", "downloads"),
    ]


def test_json_has_the_same_facts(capsys: pytest.CaptureFixture[str]):
    assert main(["doctor", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["models in the cache"] == "none"


def test_with_a_model_it_lists_kernels(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setattr(doctor, "explain", lambda model: [("rms_norm", "avx2", f"{model} has 64 columns")])
    assert main(["doctor", "some"]) == 0
    assert "rms_norm  avx2    some has 64 columns" in capsys.readouterr().out
    assert main(["doctor", "some", "--json"]) == 0
    expected = [{"op": "rms_norm", "kernel": "avx2", "why": "some has 64 columns"}]
    assert json.loads(capsys.readouterr().out)["kernels"] == expected


def test_a_misspelled_variable_is_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setenv("PELTON_ISAS", "avx2")
    assert main(["doctor"]) == 0
    assert capsys.readouterr().err == "pelton: warning: PELTON_ISAS is not read by Pelton. Did you mean 'PELTON_ISA'?\n"


def test_a_chosen_instruction_set_stands_beside_the_machines():
    environment = get_environment({"PELTON_ISA": "generic", "PELTON_OFFLINE": "1"})
    facts = doctor.describe_machine(replace(MACHINE, cpu_flags=MACHINE.cpu_flags | {"avx_vnni"}), environment)
    assert facts["instruction set"] == "generic (PELTON_ISA; the machine has avx2), with avx_vnni"
    assert facts["memory"] == "12.0 GiB free of 16.0 GiB"
    assert facts["downloads"] == "switched off by PELTON_OFFLINE"


@pytest.mark.parametrize(
    ("text", "said"),
    [("always [madvise] never", "on request"), ("always madvise [never]", "off: weights"), ("?", "unknown")],
)
def test_huge_pages(tmp_path: Path, text: str, said: str):
    folder = tmp_path / "sys/kernel/mm/transparent_hugepage"
    folder.mkdir(parents=True)
    (folder / "enabled").write_text(text)
    assert doctor.read_huge_pages(tmp_path).startswith(said)
    assert doctor.read_huge_pages(folder) == "unknown"
