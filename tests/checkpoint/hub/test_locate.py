"""What a user may write for MODEL, and what they are told when it is wrong."""

from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
from huggingface_hub import errors

from pelton.checkpoint.hub import locate
from pelton.checkpoint.hub.locate import resolve_model
from pelton.errors import ConfigError, EngineError, TransferError

pytestmark = pytest.mark.unit


class Hub:
    """Stands in for the hub's client."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.error: Exception | None = None
        self.asked: list[tuple[str, list[str], bool]] = []

    def __call__(self, repository: str, *, allow_patterns: list[str], local_files_only: bool, **_: Any) -> str:
        self.asked.append((repository, allow_patterns, local_files_only))
        if self.error is not None:
            raise self.error
        return str(self.folder)


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hub:
    made = Hub(tmp_path / "snapshot")
    made.folder.mkdir()
    monkeypatch.setattr(huggingface_hub, "snapshot_download", made)
    monkeypatch.chdir(tmp_path)
    return made


def test_paths_that_exist(tmp_path: Path) -> None:
    file = tmp_path / "model.gguf"
    file.touch()
    assert resolve_model(str(tmp_path)) == tmp_path
    assert resolve_model(str(file)) == file


def test_file_of_another_kind(tmp_path: Path) -> None:
    file = tmp_path / "model.h5"
    file.touch()
    with pytest.raises(ConfigError, match=r"expected a folder with config\.json, a \.gguf file, or weights"):
        resolve_model(str(file))


def test_name_of_the_catalog(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[tuple[str, Path | None, bool]] = []

    def pull(name: str, *, cache_dir: Path | None, show_progress: bool) -> Path:
        asked.append((name, cache_dir, show_progress))
        return tmp_path

    monkeypatch.setattr(locate, "pull", pull)
    monkeypatch.chdir(tmp_path)
    assert resolve_model("demo", cache_dir=tmp_path, show_progress=False) == tmp_path
    assert asked == [("demo", tmp_path, False)]


def test_missing_file_names_what_is_near(tmp_path: Path) -> None:
    (tmp_path / "qwen-q4.gguf").touch()
    with pytest.raises(ConfigError, match=r"qwen-q5\.gguf: no such file\. Did you mean qwen-q4\.gguf\?"):
        resolve_model(str(tmp_path / "qwen-q5.gguf"))
    with pytest.raises(ConfigError, match=r"zzzz: no such file\. Did you mean qwen-q4\.gguf\?"):
        resolve_model(str(tmp_path / "zzzz"))
    with pytest.raises(ConfigError, match="no such file, and no folder"):
        resolve_model(str(tmp_path / "no" / "folder" / "x.gguf"))


def test_missing_file_in_a_folder_without_models(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="There is no model in"):
        resolve_model(str(tmp_path / "x.gguf"))


def test_unknown_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r"'demmo' is neither a file nor .* Did you mean 'demo'\? .* owner/name"):
        resolve_model("demmo")


def test_repository(hub: Hub) -> None:
    for name in ("config.json", "model.safetensors"):
        (hub.folder / name).touch()
    assert resolve_model("Qwen/Qwen3-0.6B") == hub.folder
    assert hub.asked == [("Qwen/Qwen3-0.6B", locate._WANTED, False)]


def test_repository_without_safetensors(hub: Hub) -> None:
    (hub.folder / "config.json").touch()
    assert resolve_model("a/b") == hub.folder
    assert hub.asked[1:] == [("a/b", [*locate._WANTED, "pytorch_model*.bin"], False)]


def test_repository_offline(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PELTON_OFFLINE", "1")
    (hub.folder / "config.json").touch()
    resolve_model("a/b")
    assert hub.asked[0][2] is True


def test_repository_without_config(hub: Hub) -> None:
    with pytest.raises(ConfigError, match=r"has no config\.json.*name one of them: a/b/FILE\.gguf"):
        resolve_model("a/b")


def test_one_file_of_a_repository(hub: Hub) -> None:
    (hub.folder / "sub").mkdir()
    (hub.folder / "sub" / "m-00001-of-00003.gguf").touch()
    assert resolve_model("a/b/sub/m-00001-of-00003.gguf") == hub.folder / "sub" / "m-00001-of-00003.gguf"
    assert hub.asked[0][:2] == ("a/b", ["sub/m-*-of-00003.gguf"])
    with pytest.raises(ConfigError, match=r"a/b: has no file other\.gguf"):
        resolve_model("a/b/other.gguf")


class Response:
    """As much of an HTTP response as the hub's errors look at."""

    headers: dict[str, str] = {}  # noqa: RUF012  never changed
    request = None
    status_code = 404


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (
            errors.LocalEntryNotFoundError("no"),
            TransferError,
            "not in the local cache, and the Hugging Face hub cannot",
        ),
        (errors.HFValidationError("bad"), ConfigError, "not a repository of the Hugging Face hub: bad"),
        (ConnectionError("cut"), TransferError, "the download failed: cut. Run it again"),
    ],
)
def test_what_goes_wrong_on_the_hub(hub: Hub, error: Exception, kind: type[EngineError], message: str) -> None:
    hub.error = error
    with pytest.raises(kind, match=message):
        resolve_model("a/b")


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (errors.RepositoryNotFoundError, "no such repository on the Hugging Face hub, or it is private"),
        (errors.GatedRepoError, "asks for your agreement"),
    ],
)
def test_what_the_hub_refuses(hub: Hub, error: type[errors.HfHubHTTPError], message: str) -> None:
    hub.error = error("no", response=Response())  # type: ignore[arg-type]  # a stand-in
    with pytest.raises(ConfigError, match=message):
        resolve_model("a/b")
