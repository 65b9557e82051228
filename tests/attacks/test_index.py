"""Hostile indices, of safetensors and of PyTorch's shards alike: refused by name, and nothing outside is opened."""

from __future__ import annotations

import json
import os
import time
import tracemalloc
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.model_files import safetensors_of
from tests.pytorch_files import file_of, state_dict, tensor

from pelton.checkpoint.hf.shards import read_weights
from pelton.errors import CheckpointError

pytestmark = pytest.mark.unit

MAX_TRACED_BYTES = 50 << 20


@dataclass(frozen=True, slots=True)
class Format:
    """How the files of a format are called, and how one with tensors of these names is made."""

    index: str
    suffix: str
    make: Callable[[str], bytes]

    def name(self, stem: str) -> str:
        return stem + self.suffix

    def write_index(self, directory: Path, weight_map: Any, **more: Any) -> None:
        (directory / self.index).write_text(json.dumps({"weight_map": weight_map, **more}))


FORMATS = {
    "safetensors": Format(
        "model.safetensors.index.json", ".safetensors", lambda names: safetensors_of(dict.fromkeys(names, np.ones(6)))
    ),
    "pytorch": Format(
        "pytorch_model.bin.index.json", ".bin", lambda names: file_of(state_dict(dict.fromkeys(names, tensor())))
    ),
}


@pytest.fixture(params=FORMATS)
def known(request: pytest.FixtureRequest) -> Format:
    return FORMATS[request.param]


def refuse(directory: Path, message: str) -> None:
    tracemalloc.start()
    begin = time.perf_counter()
    try:
        with pytest.raises(CheckpointError, match=message):
            read_weights(directory)
        assert tracemalloc.get_traced_memory()[1] < MAX_TRACED_BYTES
    finally:
        tracemalloc.stop()
    assert time.perf_counter() - begin < 1.0


@pytest.mark.parametrize(
    "name",
    [
        *("../x{}", "/etc/passwd", "/etc/x{}", "sub/x{}", "..\\x{}", "C:\\x{}", "C:x{}", "\\\\host\\x{}"),
        *("x\x00{}", "x\n{}"),
        *("\x1b[2J{}", "{}", "x.gguf", "x.pkl", "", None, 3, True, ["x{}"], {"x{}": 1}),
    ],
)  # fmt: skip
def test_only_bare_names_are_opened(tmp_path: Path, known: Format, name: Any) -> None:
    model = tmp_path / "model"
    model.mkdir()
    (tmp_path / known.name("x")).write_bytes(known.make("a"))
    known.write_index(model, {"a": name.format(known.suffix) if isinstance(name, str) else name})
    refuse(model, f"expected the bare name of a \\{known.suffix} file")


def make_pipe(path: Path) -> None:
    os.mkfifo(path)


def make_link_outside(path: Path) -> None:
    outside = path.parent.parent / "outside"
    outside.write_bytes(b"secret")
    path.symlink_to(outside)


PLACES: Mapping[str, tuple[Callable[[Path], None], str]] = {
    "missing": (lambda path: None, "which is not there. The download is incomplete"),
    "a link to nothing": (lambda path: path.symlink_to("nothing"), "which is not there"),
    "a directory": (lambda path: path.mkdir(), "not a regular file"),
    "a pipe": (make_pipe, "not a regular file"),
    "a device": (lambda path: path.symlink_to("/dev/zero"), "leads out of the directory"),
    "a link outside": (make_link_outside, "leads out of the directory"),
    "a link to itself": (lambda path: path.symlink_to(path.name), "not there|too many|leads|cannot be opened"),
    "empty": (lambda path: path.touch(), "is empty"),
    "text": (lambda path: path.write_text("<html>not found</html>") and None, "is a web page"),
}


@pytest.mark.parametrize("name", PLACES)
def test_what_a_shard_may_not_be(tmp_path: Path, known: Format, name: str) -> None:
    model = tmp_path / "model"
    model.mkdir()
    make, message = PLACES[name]
    make(model / known.name("x"))
    known.write_index(model, {"a": known.name("x")})
    refuse(model, message)


@pytest.mark.parametrize(
    ("weight_map", "files", "message"),
    [
        ({"a": "x", "b": "y"}, {"x": "ab", "y": "b"}, r"holds 'b', which the index puts in y"),
        ({"a": "x"}, {"x": "ab"}, "holds 'b', which the index puts in no file"),
        ({"a": "x", "c": "x"}, {"x": "a"}, "puts 'c' in x.*, which does not hold it"),
        ({"a": "x", "b": "x"}, {"x": "ab", "model": "ab", "pytorch_model": "ab"}, "has both"),
    ],
)
def test_index_and_shards_agree(
    tmp_path: Path, known: Format, weight_map: dict[str, str], files: dict[str, str], message: str
) -> None:
    for stem, names in files.items():
        (tmp_path / known.name(stem)).write_bytes(known.make(names))
    known.write_index(tmp_path, {name: known.name(stem) for name, stem in weight_map.items()})
    refuse(tmp_path, message)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("[]", "expected an object"),
        ("{}", "weight_map is missing or empty"),
        ('{"weight_map": {}}', "weight_map is missing or empty"),
        ('{"weight_map": []}', "weight_map is missing or empty"),
        ('{"weight_map": {"a": "x", "a": "y"}}', "stands in an object twice"),
        ('{"weight_map": {"a": "x"}, "weight_map": {}}', "stands in an object twice"),
        ('{"weight_map": {"a": "x"}', "is not valid JSON"),
        ('{"weight_map": ' + "[" * 100_000, "nested too deeply|not valid JSON"),
        ('{"weight_map": NaN}', "NaN is not a JSON number"),
        ("\ufeff{}", "is not valid JSON"),
    ],
)
def test_documents(tmp_path: Path, known: Format, text: str, message: str) -> None:
    (tmp_path / known.index).write_text(text)
    refuse(tmp_path, message)


def test_an_index_that_is_a_pipe(tmp_path: Path, known: Format) -> None:
    os.mkfifo(tmp_path / known.index)
    refuse(tmp_path, "not a regular file")


def test_ten_thousand_shards(tmp_path: Path, known: Format) -> None:
    known.write_index(tmp_path, {str(number): known.name(str(number)) for number in range(10_001)})
    refuse(tmp_path, "names 10001 files")


def test_the_cache_of_a_hub_is_links(tmp_path: Path, known: Format) -> None:
    snapshot, blobs = (tmp_path / "models--a--b" / name for name in ("snapshots/0123", "blobs"))
    snapshot.mkdir(parents=True)
    blobs.mkdir()
    (blobs / "beef").write_bytes(known.make("a"))
    (snapshot / known.name("x")).symlink_to("../../blobs/beef")
    known.write_index(snapshot, {"a": known.name("x")}, metadata={"total_size": 24})
    assert list(read_weights(snapshot)) == ["a"]
