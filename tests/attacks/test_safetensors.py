"""Hostile safetensors files and indices: only a CheckpointError comes out, and no file outside is opened."""

from __future__ import annotations

import json
import os
import struct
import time
import tracemalloc
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.model_files import safetensors_bytes, safetensors_of

from pelton.checkpoint.hf.safetensors import read_safetensors
from pelton.checkpoint.hf.shards import read_weights
from pelton.errors import CheckpointError

pytestmark = pytest.mark.cpu  # thousands of files

MAX_TRACED_BYTES = 8 << 20


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model.safetensors"


def refuse(path: Path, raw: bytes, message: str) -> None:
    path.write_bytes(raw)
    tracemalloc.start()
    try:
        with pytest.raises(CheckpointError, match=message):
            read_safetensors(path)
        assert tracemalloc.get_traced_memory()[1] < MAX_TRACED_BYTES
    finally:
        tracemalloc.stop()


def entry(**changes: Any) -> dict[str, Any]:
    return {"dtype": "F32", "shape": [2], "data_offsets": [0, 8], **changes}


def one(**changes: Any) -> bytes:
    """A file of one tensor of eight bytes whose entry is changed."""
    return safetensors_bytes({"t": entry(**changes)}, bytes(8))


def two(first: list[int], second: list[int], num_bytes: int = 16) -> bytes:
    header = {"a": entry(data_offsets=first), "b": entry(data_offsets=second)}
    return safetensors_bytes(header, bytes(num_bytes))


SOUND = safetensors_of({"a.weight": np.arange(6).reshape(2, 3), "b": np.arange(4)})
TWICE = b'{"t":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"t":{"dtype":"%s","shape":[%d],"data_offsets":[%d,%d]}}'

FILES: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "is empty"),
    "seven bytes": (bytes(7), "too few"),
    "a pointer": (b"version https://git-lfs.github.com/spec/v1\noid sha256:1\n", "only a pointer of git-lfs"),
    "a page": (b"<!DOCTYPE html><html>", "is a web page"),
    "a zip archive": (b"PK\x03\x04" + bytes(range(1, 100)), r"a zip archive, as PyTorch writes them"),
    "a GGUF file": (b"GGUF\x03" + bytes(100), "claims a header|is a GGUF file"),
    "no header": (bytes(8), "begins with"),
    "header of one byte": (safetensors_bytes(b"{"), "not valid JSON"),
    "header of 2^63": (safetensors_bytes({}, length=1 << 63), "claims a header of 9223372036854775808"),
    "header beyond the file": (safetensors_bytes({}, length=1000), "truncated"),
    "an array": (safetensors_bytes(b"[]"), "expected an object"),
    "a string": (safetensors_bytes(b'"x"'), "expected an object"),
    "leading spaces": (safetensors_bytes(b"  {}"), "expected an object"),
    "byte order mark": (safetensors_bytes(b"\xef\xbb\xbf{}"), "expected an object"),
    "NUL behind": (safetensors_bytes(b"{}\x00\x00"), "not valid JSON"),
    "UTF-16": (safetensors_bytes("{}".encode("utf-16-le")), "not valid JSON"),
    "not UTF-8": (safetensors_bytes(b'{"\xff":1}'), "not valid UTF-8"),
    "deep nesting": (safetensors_bytes(b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}"), "nested too deeply|JSON"),
    "huge number": (safetensors_bytes(b'{"a":' + b"9" * 10_000 + b"}"), "not valid JSON"),
    "NaN": (safetensors_bytes(b'{"a":NaN}'), "NaN is not a JSON number"),
    "twice, same bytes": (safetensors_bytes(TWICE % (b"F16", 4, 0, 8), bytes(8)), "'t' stands in an object twice"),
    "twice, other bytes": (safetensors_bytes(TWICE % (b"F32", 2, 8, 16), bytes(16)), "'t' stands in an object twice"),
    "entry is a number": (safetensors_bytes({"t": 1}), "expected dtype, shape"),
    "entry lacks a field": (safetensors_bytes({"t": {"dtype": "F32", "shape": []}}), "expected dtype, shape"),
    "entry has a field more": (one(strides=[1]), "expected dtype, shape"),
    "unknown dtype": (one(dtype="F31"), "Did you mean"),
    "GGUF scheme": (one(dtype="Q8_0"), "has dtype 'Q8_0'"),
    "dtype is a list": (one(dtype=["F32"]), "has dtype"),
    "negative axis": (one(shape=[-2]), "expected whole numbers"),
    "float axis": (one(shape=[2.0]), "expected whole numbers"),
    "boolean axis": (one(shape=[True, 2]), "expected whole numbers"),
    "axis 2^64": (one(shape=[1 << 64]), "expected whole numbers"),
    "shape is a number": (one(shape=2), "expected whole numbers"),
    "product overflows": (one(shape=[1 << 62, 4]), "needs 73786976294838206464"),
    "product overflows to the right size": (one(shape=[(1 << 62) + 2, 4]), "takes 8 bytes"),
    "shape and bytes differ": (one(shape=[3]), "needs 12"),
    "offsets reversed": (one(data_offsets=[8, 0]), r"expected \[begin, end\]"),
    "three offsets": (one(data_offsets=[0, 8, 8]), r"expected \[begin, end\]"),
    "offset negative": (one(data_offsets=[-8, 0]), "expected whole numbers"),
    "odd F4": (one(dtype="F4", shape=[3], data_offsets=[0, 2]), "does not fill whole bytes"),
    "begins late": (safetensors_bytes({"t": entry(data_offsets=[8, 16])}, bytes(16)), "leaves a hole"),
    "hole": (two([0, 8], [16, 24], 24), "leaves a hole"),
    "overlap": (two([0, 8], [4, 12], 12), "overlaps"),
    "same place": (two([0, 8], [0, 8], 8), "overlaps"),
    "beyond the file": (two([0, 8], [8, 16], 8), "truncated"),
    "trailing bytes": (SOUND + bytes(8), "has bytes behind its tensors"),
    "one byte short": (SOUND[:-1], "truncated"),
    "metadata is a list": (safetensors_bytes({"__metadata__": []}), "must map names to text"),
    "metadata has a number": (safetensors_bytes({"__metadata__": {"a": 1}}), "must map names to text"),
    "empty name": (safetensors_bytes({"": entry()}, bytes(8)), "printable and not empty"),
    "name with a line break": (safetensors_bytes({"a\nb": entry()}, bytes(8)), "printable and not empty"),
    "name with an escape": (safetensors_bytes({"\x1b[2J": entry()}, bytes(8)), "printable and not empty"),
    "name of a megabyte": (safetensors_bytes({"a" * (1 << 20): entry()}, bytes(8)), "printable and not empty"),
}


@pytest.mark.parametrize("name", FILES)
def test_files(path: Path, name: str) -> None:
    refuse(path, *FILES[name])


def test_every_truncation_is_refused(path: Path) -> None:
    for length in range(len(SOUND)):
        path.write_bytes(SOUND[:length])
        with pytest.raises(CheckpointError):
            read_safetensors(path)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_flipped_bytes_do_no_harm(path: Path, data: st.DataObject) -> None:
    raw = bytearray(SOUND)
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.sampled_from(b'\x00\x01\x7f\xff"{}[],:09ae-'))
    path.write_bytes(raw)
    with suppress(CheckpointError):
        placed = read_safetensors(path)
        assert sum(tensor.info.nbytes for tensor in placed.values()) < len(raw)


def test_a_long_header_is_read_in_bounded_time(path: Path) -> None:
    header = {f"layer.{i}": entry(shape=[0], data_offsets=[0, 0]) for i in range(20_000)}
    path.write_bytes(safetensors_bytes(header))
    assert len(read_safetensors(path)) == 20_000


def many(count: int, length: int = 0) -> bytes:
    """A header of so many empty tensors whose names have at least `length` characters."""
    entry = '"%0*d":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}'
    return ("{" + ",".join(entry % (length, number) for number in range(count)) + "}").encode()


def test_headers_that_cost_too_much_are_refused_before_they_are_parsed(path: Path) -> None:
    metadata = b'{"__metadata__":{' + b",".join(b'"%d":""' % number for number in range(500_000)) + b"}}"
    for header in (many(200_001), many(4000, 4096), metadata):
        begin = time.perf_counter()
        refuse(path, safetensors_bytes(header), "bytes of metadata are read; save it in shards")
        assert time.perf_counter() - begin < 1.0


def write_index(directory: Path, weight_map: Any, **files: bytes) -> None:
    text = weight_map if isinstance(weight_map, str) else json.dumps({"metadata": {}, "weight_map": weight_map})
    (directory / "model.safetensors.index.json").write_text(text)
    for name, raw in files.items():
        (directory / f"{name}.safetensors").write_bytes(raw)


@pytest.mark.parametrize(
    "name",
    [
        "../x.safetensors",
        "/etc/passwd",
        "/etc/x.safetensors",
        "sub/x.safetensors",
        "C:\\x.safetensors",
        "C:x.safetensors",
        "x.bin",
        "x\x00.safetensors",
        "x\n.safetensors",
        ".safetensors",
        "",
        None,
        3,
        ["x.safetensors"],
    ],
)
def test_an_index_names_bare_files_only(tmp_path: Path, name: Any) -> None:
    write_index(tmp_path, {"a": name})
    with pytest.raises(CheckpointError, match="expected the bare name"):
        read_weights(tmp_path)


def test_special_files_are_not_opened(tmp_path: Path) -> None:
    write_index(tmp_path, {"a": "x.safetensors"})
    os.mkfifo(tmp_path / "x.safetensors")  # opening it would wait for ever
    with pytest.raises(CheckpointError, match="not a regular file"):
        read_weights(tmp_path)
    (tmp_path / "x.safetensors").unlink()
    (tmp_path / "x.safetensors").mkdir()
    with pytest.raises(CheckpointError, match="not a regular file"):
        read_weights(tmp_path)


def test_links_stay_inside(tmp_path: Path) -> None:
    model = tmp_path / "model"
    model.mkdir()
    outside = tmp_path / "outside.safetensors"
    outside.write_bytes(SOUND)
    write_index(model, {"a.weight": "x.safetensors", "b": "x.safetensors"})
    (model / "x.safetensors").symlink_to(outside)
    with pytest.raises(CheckpointError, match="leads out of the directory"):
        read_weights(model)
    (model / "x.safetensors").unlink()
    (model / "x.safetensors").symlink_to("/dev/zero")
    with pytest.raises(CheckpointError, match="leads out of the directory"):
        read_weights(model)
    (model / "x.safetensors").unlink()
    (model / "y.safetensors").write_bytes(SOUND)
    (model / "x.safetensors").symlink_to("y.safetensors")
    assert list(read_weights(model)) == ["a.weight", "b"]


def test_the_hub_cache_is_followed(tmp_path: Path) -> None:
    snapshot = tmp_path / "models--a--b" / "snapshots" / "0123"
    blobs = tmp_path / "models--a--b" / "blobs"
    snapshot.mkdir(parents=True)
    blobs.mkdir()
    (blobs / "beef").write_bytes(SOUND)
    write_index(snapshot, {"a.weight": "x.safetensors", "b": "x.safetensors"})
    (snapshot / "x.safetensors").symlink_to("../../blobs/beef")
    assert list(read_weights(snapshot)) == ["a.weight", "b"]


PART_A = safetensors_of({"a": np.arange(3)})
PART_B = safetensors_of({"b": np.arange(2)})
BOTH = safetensors_of({"a": np.arange(3), "b": np.arange(2)})


@pytest.mark.parametrize(
    ("weight_map", "files", "message"),
    [
        ({"a": "x.safetensors", "b": "y.safetensors"}, {"x": PART_A}, r"names y\.safetensors, which is not there"),
        (
            {"a": "x.safetensors", "b": "y.safetensors"},
            {"x": BOTH, "y": PART_B},
            r"which the index puts in y\.safetensors",
        ),
        ({"a": "x.safetensors"}, {"x": BOTH}, "which the index puts in no file"),
        ({"a": "x.safetensors", "c": "x.safetensors"}, {"x": PART_A}, "which does not hold it"),
        ({"a": "x.safetensors"}, {"x": PART_A, "model": PART_A}, "has both"),
        ({}, {}, "missing or empty"),
        ([], {}, "missing or empty"),
        ('{"weight_map": {"a": "x.safetensors", "a": "y.safetensors"}}', {}, "stands in an object twice"),
        ("[]", {}, "expected an object"),
    ],
)
def test_an_index_and_its_files_agree(tmp_path: Path, weight_map: Any, files: dict[str, bytes], message: str) -> None:
    write_index(tmp_path, weight_map, **files)
    with pytest.raises(CheckpointError, match=message):
        read_weights(tmp_path)


def test_a_header_length_is_compared_before_it_is_read(path: Path) -> None:
    refuse(path, struct.pack("<Q", 99_999_999) + b"{}", "the header ends at byte 100000007")
