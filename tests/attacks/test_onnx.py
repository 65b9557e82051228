"""Every ONNX file made to break a reader is refused fast, in little memory, with a message that names the place."""

from __future__ import annotations

import os
import time
import tracemalloc
from collections.abc import Sequence
from pathlib import Path

import pytest

from pelton.checkpoint.onnx.weights import read_onnx
from pelton.conversion import onnx_proto as proto
from pelton.conversion.onnx_proto import Field, message
from pelton.errors import CheckpointError

pytestmark = pytest.mark.unit

NAME = "model.norm.weight"
SECONDS, MEMORY = 1.0, 50 << 20


def model(graph: bytes, *more: Field) -> bytes:
    return message([(1, 9), (7, graph), (8, message([(1, ""), (2, 18)])), *more])


def graph(*tensors: bytes, nodes: Sequence[bytes] = ()) -> bytes:
    return message([*((1, node) for node in nodes), *((5, tensor) for tensor in tensors)])


def tensor(*, dims: Sequence[int] = (4,), kind: int = 1, more: Sequence[Field] = (), name: str = NAME) -> bytes:
    return message([*((1, dim) for dim in dims), (2, kind), (8, name), *more])


def beside(dims: Sequence[int] = (4,), more: Sequence[Field] = (), **keys: str) -> bytes:
    """A model with one tensor in a file beside it."""
    keys = {"location": "w.onnx_data", "offset": "0", "length": "16", **keys}
    entries: list[Field] = [(13, message([(1, key), (2, value)])) for key, value in keys.items()]
    return model(graph(tensor(dims=dims, more=[*entries, (14, 1), *more])))


def inside(**keys: object) -> bytes:
    """A model with one tensor that holds its numbers."""
    raw: list[Field] = [(9, bytes(16))]
    return model(graph(tensor(more=raw, **keys)))  # type: ignore[arg-type]


def nested(depth: int) -> bytes:
    """An If in an If in an If: each length is known only from inside, so they are made from there."""
    parts: list[bytes] = []
    length = 0
    for _ in range(depth):
        for number in (6, 5, 1):
            head = bytes([number << 3 | 2]) + varint(length)
            parts.append(head)
            length += len(head)
    return model(b"".join(reversed(parts)))


def varint(value: int) -> bytes:
    return message([(1, value)])[1:]


RAW = proto.constant(NAME, 1, [4], bytes(16))
ENDLESS = message([(1, 9)]) + bytes([7 << 3 | 2]) + varint(1 << 40)

FILES: dict[str, tuple[bytes, str]] = {
    "location absolute": (beside(location="/etc/passwd"), "bare name"),
    "location upwards": (beside(location="../w.onnx_data"), "bare name"),
    "location upwards from inside": (beside(location="a/../../w.onnx_data"), "bare name"),
    "location backwards": (beside(location="..\\w.onnx_data"), "bare name"),
    "location empty": (beside(location=""), "bare name"),
    "location dot": (beside(location="."), "bare name"),
    "location of another kind": (beside(location="config.json"), "bare name"),
    "location with a zero": (beside(location="w\0.onnx_data"), "bare name"),
    "location link": (beside(location="link.onnx_data"), "leads out of the directory"),
    "location hard link": (beside(location="hard.onnx_data"), "hard link"),
    "location not there": (beside(location="x.onnx_data"), "no such file"),
    "location pipe": (beside(location="pipe.onnx_data"), "not a regular file"),
    "offset negative": (beside(offset="-1"), "expected a number of bytes"),
    "offset behind": (beside(offset="65"), "has 64"),
    "offset huge": (beside(offset=str(1 << 60)), "has 64"),
    "offset as words": (beside(offset="1e1"), "expected a number of bytes"),
    "length negative": (beside(length="-1"), "expected a number of bytes"),
    "length of a petabyte": (beside(length=str(1 << 50)), "has 64"),
    "length endless": (beside(length="9" * 400), "expected a number of bytes"),
    "length shorter": (beside(length="12"), "takes 16"),
    "length longer": (beside(length="20"), "takes 16"),
    "length as Python writes it": (beside(length="1_6"), "expected a number of bytes"),
    "raw data too": (beside(more=[(9, bytes(16))]), "in two places"),
    "key of an object": (beside(__class__="x"), "'__class__'"),
    "key of the writer": (beside(basepath="/"), "'basepath'"),
    "external without saying so": (
        model(graph(tensor(more=[(13, message([(1, "location"), (2, "w.onnx_data")])), (9, bytes(16))]))),
        "in two places",
    ),
    "location of the tensor unknown": (model(graph(tensor(more=[(14, 2)]))), "not known"),
    "dims negative": (inside(dims=(-4,)), "no axis is negative"),
    "dims overflow": (inside(dims=(1 << 62, 4)), "takes"),
    "dims overflow beside": (beside(dims=(1 << 32, 1 << 32, 1 << 32)), "takes"),
    "dims too many": (inside(dims=(1,) * 100_000), "more than 100 fields"),
    "bytes too few": (inside(dims=(5,)), "has 16 bytes"),
    "type undefined": (inside(kind=0), "of type 0"),
    "type unknown": (inside(kind=99), "of type 99"),
    "type of text": (inside(kind=8), "of type 8"),
    "no numbers": (model(graph(tensor())), "or none"),
    "segment": (model(graph(tensor(more=[(3, b""), (9, bytes(16))]))), "segment"),
    "sparse": (model(message([(15, b"")])), "sparse"),
    "two of one name": (model(graph(RAW, RAW)), "two initializers"),
    "no name": (model(graph(proto.constant("", 1, [4], bytes(16)))), "without a name"),
    "name too long": (model(graph(proto.constant("x" * 5000, 1, [4], bytes(16)))), "at most 4096"),
    "name not text": (model(graph(message([(8, b"\xff\xfe")]))), "not UTF-8"),
    "functions": (model(graph(RAW), (25, message([(1, "f")]))), "functions"),
    "training": (model(graph(RAW), (20, b"")), "training"),
    "custom operators": (
        model(graph(RAW, nodes=[message([(2, "y"), (4, "Run"), (7, "evil.ops")])])), "'evil.ops'",
    ),
    "custom import": (model(graph(RAW), (8, message([(1, "evil.ops"), (2, 1)]))), "'evil.ops'"),
    "operators twice": (model(graph(RAW), (8, message([(1, ""), (2, 17)]))), "imports version 17"),
    "uses what is not made": (model(graph(RAW, nodes=[proto.node("Relu", ["x"], ["y"], {})])), "nothing before it"),
    "circle": (
        model(graph(RAW, nodes=[proto.node("Relu", ["b"], ["a"], {}), proto.node("Relu", ["a"], ["b"], {})])),
        "nothing before it",
    ),
    "made twice": (
        model(graph(RAW, nodes=[proto.node("Relu", [NAME], ["a"], {}), proto.node("Relu", [NAME], ["a"], {})])),
        "there already",
    ),
    "many graphs": (
        model(graph(RAW, nodes=[message([(2, "a"), *((5, message([(6, b"")])) for _ in range(20_000))])])),
        "more than 100",
    ),
    "nested deeply": (nested(100_000), "nested"),
    "more than it has": (ENDLESS, f"claims {1 << 40} bytes"),
    "number without an end": (b"\x08" + b"\xff" * 11, "does not end"),
    "group": (b"\x0b", "a group"),
    "field unknown": (model(graph(RAW), (99, 1)), "field 99"),
    "field of another type": (message([(1, b"x")]), "field 1 as bytes"),
    "graph twice": (model(graph(RAW), (7, graph())), "field 7 twice"),
    "version unknown": (message([(1, 99)]), "version 99"),
    "nothing": (message([(1, 9), (8, message([(2, 18)]))]), "no graph"),
    "no weights": (model(graph()), "no parameter"),
    "metadata wrong": (model(graph(RAW), (14, message([(1, "pelton.tensors"), (2, '{"a": 1}')]))), "expected"),
    "metadata elsewhere": (
        model(graph(RAW), (14, message([(1, "pelton.tensors"), (2, '{"a": ["b", 0, [4], false]}')]))), "no weight",
    ),
    "metadata outside": (
        model(graph(RAW), (14, message([(1, "pelton.tensors"), (2, f'{{"a": ["{NAME}", 1, [4], false]}}')]))),
        "from row 1",
    ),
}  # fmt: skip


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    inner = tmp_path / "model"
    inner.mkdir()
    (inner / "w.onnx_data").write_bytes(bytes(64))
    (tmp_path / "secret").write_bytes(bytes(64))
    (inner / "link.onnx_data").symlink_to(tmp_path / "secret")
    (inner / "hard.onnx_data").hardlink_to(tmp_path / "secret")
    os.mkfifo(inner / "pipe.onnx_data")
    return inner


@pytest.mark.parametrize("name", FILES)
def test_it_is_refused(name: str, directory: Path) -> None:
    raw, expected = FILES[name]
    path = directory / "model.onnx"
    path.write_bytes(raw)
    tracemalloc.start()
    begin = time.perf_counter()
    try:
        with pytest.raises(CheckpointError) as caught:
            read_onnx(path)
        seconds, peak = time.perf_counter() - begin, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert expected in str(caught.value)
    assert str(directory) in str(caught.value)
    assert seconds < SECONDS
    assert peak < MEMORY


@pytest.mark.parametrize("raw", [beside(), inside(), model(graph(tensor(more=[(4, bytes(16))])))])
def test_the_sound_ones_beside_them_are_read(raw: bytes, directory: Path) -> None:
    (directory / "model.onnx").write_bytes(raw)
    (placed,) = read_onnx(directory / "model.onnx").values()
    assert placed.flat().tobytes() == bytes(16)
