import subprocess
from pathlib import Path

import pytest

from pelton import __version__
from pelton.bench.machine import get_commit, get_machine, run_git
from pelton.config.hardware import Hardware

pytestmark = pytest.mark.unit


def test_the_facts_of_a_machine():
    hardware = Hardware(
        machine="x86_64",
        cpu_name="A chip",
        num_cpus=4,
        num_cores=2,
        total_memory_bytes=8 << 30,
        available_memory_bytes=1 << 30,
        cpu_flags=frozenset({"avx2", "fma", "f16c"}),
    )
    assert get_machine(hardware).to_json() == {
        "cpu_name": "A chip",
        "num_cores": 2,
        "num_cpus": 4,
        "memory_bytes": 8 << 30,
        "isa": "avx2",
    }
    assert get_machine().num_cores >= 1


def make_repository(folder: Path) -> None:
    for arguments in (
        ["init", "-q"],
        ["add", "."],
        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "first"],
    ):
        assert run_git(folder, *arguments) is not None


def test_the_commit_of_a_repository_that_has_the_code(tmp_path: Path):
    (tmp_path / "machine.py").write_text("")
    make_repository(tmp_path)
    head = run_git(tmp_path, "rev-parse", "HEAD")
    assert head is not None
    assert head.startswith(get_commit(tmp_path))
    (tmp_path / "machine.py").write_text("changed")
    assert get_commit(tmp_path).endswith("-dirty")


def test_another_repository_around_the_code_is_not_its_own(tmp_path: Path):
    (tmp_path / "other.py").write_text("")
    make_repository(tmp_path)
    assert get_commit(tmp_path) == __version__


def test_no_repository(tmp_path: Path):
    assert get_commit(tmp_path / "nowhere") == __version__


def test_no_git(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    def missing(*_: object, **__: object) -> None:
        raise FileNotFoundError("git")

    monkeypatch.setattr(subprocess, "run", missing)
    assert get_commit(tmp_path) == __version__
