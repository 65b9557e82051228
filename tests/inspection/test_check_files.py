import json
from pathlib import Path

import numpy as np
import pytest
from tests.inspection.models import found, inspect, shard, write

from pelton.errors import ConfigError
from pelton.inspection import check_files, subject
from pelton.inspection.check_files import has_holes, split_files
from pelton.inspection.subject import open_subject

pytestmark = pytest.mark.unit


def test_a_sound_model_is_not_suspected(tmp_path: Path) -> None:
    assert not {id_ for id_ in found(write(tmp_path)) if id_.startswith("files.")}


def test_stale_shards_beside_an_index(tmp_path: Path) -> None:
    shard(write(tmp_path))
    assert "files.stale-weights" not in found(tmp_path)
    (tmp_path / "consolidated.safetensors").write_bytes((tmp_path / "model-00001-of-00002.safetensors").read_bytes())
    (finding,) = [f for f in inspect(tmp_path).findings if f.id == "files.stale-weights"]
    assert finding.sentence.startswith("consolidated.safetensors: not named by the index")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("pytorch_model.bin", "files.other-format"),
        ("model-q4.gguf", "files.other-format"),
        ("adapter_model.safetensors", "files.adapter"),
        ("adapter_config.json", "files.adapter"),
        ("modeling_x.py", "files.code"),
        ("sub/kernel.so", "files.code"),
        ("training_args.bin", "files.pickle"),
        ("model.safetensors.incomplete", "files.partial"),
        (".cache/huggingface/download/x.incomplete", "files.partial"),
    ],
)
def test_strangers(tmp_path: Path, name: str, expected: str) -> None:
    path = write(tmp_path) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x")
    assert {id_ for id_ in found(tmp_path) if id_.startswith("files.")} == {expected}


def test_a_total_that_is_wrong(tmp_path: Path) -> None:
    shard(write(tmp_path), total_size=1)
    assert "files.total-size" in found(tmp_path)


def test_a_pointer_of_lfs(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "tokenizer.json").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")
    report = inspect(tmp_path)
    assert "files.lfs-pointer" in {finding.id for finding in report.findings}
    assert report.refusals


def test_a_file_that_ends_in_zeros(tmp_path: Path) -> None:
    def damage(tensors: dict) -> None:  # type: ignore[type-arg]
        tensors["model.embed_tokens.weight"] = np.zeros_like(tensors["model.embed_tokens.weight"])
        tensors["lm_head.weight"] = tensors.pop("lm_head.weight")
        last = tensors.pop("model.embed_tokens.weight")
        tensors["model.embed_tokens.weight"] = last

    assert "files.zero-tail" in found(write(tmp_path, tensors=damage))


def test_a_file_that_was_never_written_to_its_end(tmp_path: Path) -> None:
    path = write(tmp_path) / "model.safetensors"
    raw = path.read_bytes()
    with path.open("wb") as file:
        file.write(raw[: 1 << 17])
        file.seek(1 << 18)
        file.write(raw[1 << 18 :])
    assert path.stat().st_size == len(raw)
    if not has_holes(path, len(raw)):
        pytest.skip("this file system does not tell of holes")
    assert "files.holes" in found(tmp_path)
    path.write_bytes(raw)
    assert "files.holes" not in found(tmp_path)


def test_a_file_that_cannot_be_read_hides_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, size: int) -> bool:
        raise PermissionError(13, "Permission denied", str(path))

    write(tmp_path)
    (tmp_path / "x.md").write_text("version https://git-lfs.github.com/spec/v1\n")
    monkeypatch.setattr(check_files, "has_holes", refuse)
    assert "files.lfs-pointer" in found(tmp_path)


def test_a_folder_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, limit: int = 0) -> tuple[str, ...]:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(subject, "list_files", refuse)
    with pytest.raises(ConfigError, match="cannot be looked into: Permission denied"):
        open_subject(write(tmp_path))


def test_why_a_file_is_ignored(tmp_path: Path) -> None:
    write(tmp_path)
    for name in ("README.md", "merges.txt", "x.py", "original/params.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(json.dumps({}))
    used, ignored = split_files(open_subject(tmp_path))
    assert {item.what: item.why for item in ignored} == {
        "README.md": "text for people",
        "merges.txt": "tokenizer.json is read",
        "x.py": "code of a model is never run",
        "original/params.json": "in a folder of its own",
    }
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= used
