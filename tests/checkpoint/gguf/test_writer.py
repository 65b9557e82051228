"""What the writer writes, our strict reader and the reference reader read back the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.model_files import gguf_bytes, strings

from pelton.checkpoint.gguf.container import read_container
from pelton.checkpoint.gguf.string_array import StringArray
from pelton.checkpoint.gguf.writer import write_gguf
from pelton.checkpoint.outgoing import Outgoing
from pelton.checkpoint.scheme import row_bytes
from pelton.errors import CheckpointError

pytestmark = pytest.mark.unit

KEYS = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=20)
NUMBERS = [np.uint8, np.int8, np.uint16, np.int16, np.uint32, np.int32, np.uint64, np.int64, np.float32, np.float64]
ARRAYS = st.sampled_from(NUMBERS).flatmap(
    lambda kind: st.lists(st.integers(0, 100), max_size=9).map(lambda items: np.array(items, kind))
)
VALUES = st.one_of(
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(width=32, allow_nan=False),
    st.text(max_size=30),
    st.lists(st.text(max_size=5), max_size=5),
    ARRAYS,
)


def make(name: str, shape: tuple[int, ...], scheme: str, seed: int = 0) -> Outgoing:
    num_rows = int(np.prod(shape[:-1], dtype=np.int64))
    shaped = (num_rows, row_bytes(scheme, shape[-1] if shape else 1))
    return Outgoing(name, shape, scheme, lambda: np.random.default_rng(seed).integers(0, 256, shaped, np.uint8))


def plain(value: Any) -> Any:
    if isinstance(value, StringArray):
        return list(value)
    if isinstance(value, np.ndarray):
        return (value.dtype.str, value.tolist())
    return np.float32(value) if isinstance(value, float) else value  # read as its shortest decimal


SHAPES = st.sampled_from(
    [("F32", (3,)), ("BF16", (2, 5)), ("Q4_K", (2, 256)), ("Q8_0", (3, 2, 32)), ("F16", (1,)), ("Q2_0", (64,))]
)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(values=st.dictionaries(KEYS.filter(lambda key: key != "general.alignment"), VALUES, max_size=6), data=st.data())
def test_what_is_written_is_read_back(tmp_path: Path, values: dict[str, Any], data: st.DataObject) -> None:
    chosen = data.draw(st.lists(SHAPES, max_size=4))
    tensors = [make(f"tensor.{index}", shape, scheme, index) for index, (scheme, shape) in enumerate(chosen)]
    path = tmp_path / "model.gguf"
    path.unlink(missing_ok=True)
    write_gguf(path, values, tensors)
    read = read_container(path)
    assert {key: plain(value) for key, value in read.metadata.items()} == {
        key: plain(value) for key, value in values.items()
    }
    assert list(read.tensors) == [tensor.name for tensor in tensors]
    for tensor in tensors:
        found = read.tensors[tensor.name]
        assert (found.info.shape, found.info.scheme, found.info.nbytes) == (tensor.shape, tensor.scheme, tensor.nbytes)
        rows = tensor.make()
        assert np.array_equal(read.file.rows(found.offset, *rows.shape), rows)


def test_the_reference_reads_it_and_equal_input_gives_equal_bytes(tmp_path: Path) -> None:
    tensors = [make("a", (2, 256), "Q4_K"), make("b.weight", (7,), "F32", 1)]
    metadata = {"general.architecture": "llama", "llama.block_count": 3, "x.list": ["a", "\u00e4"], "x.eps": 1e-6}
    for name in ("1.gguf", "2.gguf"):
        write_gguf(tmp_path / name, metadata, tensors)
    assert (tmp_path / "1.gguf").read_bytes() == (tmp_path / "2.gguf").read_bytes()
    reader = gguf.GGUFReader(tmp_path / "1.gguf")
    assert reader.fields["llama.block_count"].types == [gguf.GGUFValueType.UINT32]
    assert reader.fields["x.list"].contents() == ["a", "\u00e4"]
    assert [tensor.tensor_type.name for tensor in reader.tensors] == ["Q4_K", "F32"]
    assert np.array_equal(reader.tensors[0].data.reshape(2, -1), tensors[0].make())


@pytest.mark.parametrize(
    ("metadata", "tensors", "message"),
    [
        ({}, [make("a", (2,), "F32"), make("a", (2,), "F32")], "two tensors"),
        ({}, [make("a", (2,), "F8_E4M3")], "GGUF files do not hold"),
        ({}, [make("a", (256,), "Q8_K")], "GGUF files do not hold"),
        ({}, [make("a" * 64, (2,), "F32")], "up to 63 bytes"),
        ({}, [make("a", (1, 1, 1, 1, 1), "F32")], "4 axes"),
        ({"k": 2**70}, [], "64 bits"),
        ({"": 1}, [], "printable ASCII"),
        ({"caf\u00e9": 1}, [], "printable ASCII"),
        ({"k": "\ud800"}, [], "UTF-8 cannot write"),
        ({"k": ["a", "\udc80"]}, [], "UTF-8 cannot write"),
        ({"general.alignment": 3}, [], "general.alignment is 3"),
        ({"general.alignment": "32"}, [], "general.alignment is '32'"),
        ({"k": [1, 2]}, [], "array of numpy"),
        ({"k": np.zeros((2, 2))}, [], "arrays of one"),
        ({"k": np.zeros(2, np.complex64)}, [], "does not have"),
        ({}, [Outgoing("a", (2,), "F32", lambda: np.zeros((1, 4), np.uint8))], "takes 8"),
    ],
)
def test_what_gguf_cannot_hold_is_refused(
    tmp_path: Path, metadata: dict[str, Any], tensors: list[Outgoing], message: str
) -> None:
    with pytest.raises(CheckpointError, match=message):
        write_gguf(tmp_path / "model.gguf", metadata, tensors)


def test_bytes_are_counted_and_no_file_is_overwritten(tmp_path: Path) -> None:
    counted: list[int] = []
    write_gguf(tmp_path / "m.gguf", {}, [make("a", (2, 32), "Q8_0"), make("b", (3,), "F16")], on_bytes=counted.append)
    assert counted == [68, 6]
    with pytest.raises(FileExistsError):
        write_gguf(tmp_path / "m.gguf", {}, [])


@pytest.mark.parametrize("alignment", [8, 32, 4096, np.uint32(64)])
def test_tensors_stand_where_the_alignment_says(tmp_path: Path, alignment: int) -> None:
    tensors = [make("a", (3,), "F32"), make("b", (2, 32), "Q8_0", 1)]
    write_gguf(tmp_path / "m.gguf", {"general.alignment": alignment}, tensors)
    read = read_container(tmp_path / "m.gguf")
    for tensor in tensors:
        found = read.tensors[tensor.name]
        assert found.offset % int(alignment) == 0
        rows = tensor.make()
        assert np.array_equal(read.file.rows(found.offset, *rows.shape), rows)


def test_strings_of_a_file_are_written_as_it_has_them(tmp_path: Path) -> None:
    odd = [b"a", b"\xff\xfe", b"", "\u00e9".encode()]
    (tmp_path / "a.gguf").write_bytes(gguf_bytes([("tokens", strings(odd)), ("none", strings([]))]))
    write_gguf(tmp_path / "b.gguf", read_container(tmp_path / "a.gguf").metadata, [])
    read = read_container(tmp_path / "b.gguf").metadata["tokens"]
    assert isinstance(read, StringArray)
    assert [read.raw(index) for index in range(4)] == odd
