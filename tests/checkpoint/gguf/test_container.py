"""Sound files are read as the gguf package writes them. Broken ones: tests/attacks."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
import pytest
from tests.model_files import gguf_bytes, gguf_matrix, text, u32

from pelton.checkpoint.gguf.container import read_container
from pelton.checkpoint.gguf.string_array import StringArray
from pelton.errors import CheckpointError

pytestmark = pytest.mark.unit


def write_with_oracle(path: Path) -> dict[str, np.ndarray]:
    """A file with every kind of value, and tensors of several schemes, by the format's own writer."""
    rng = np.random.default_rng(0)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_uint8("x.u8", 200)
    writer.add_int8("x.i8", -100)
    writer.add_uint16("x.u16", 60000)
    writer.add_int16("x.i16", -30000)
    writer.add_uint32("x.u32", 4_000_000_000)
    writer.add_int32("x.i32", -2_000_000_000)
    writer.add_uint64("x.u64", 1 << 63)
    writer.add_int64("x.i64", -(1 << 62))
    writer.add_float32("x.f32", 1e-6)
    writer.add_float64("x.f64", 1 / 3)
    writer.add_bool("x.bool", True)
    writer.add_string("x.string", "caf\u00e9")
    writer.add_array("x.strings", ["a", "", "bc" * 200])
    writer.add_array("x.ints", [3, -4])
    writer.add_array("x.bools", [True, False])
    tensors = {"a.weight": rng.normal(size=(3, 5)).astype(np.float32), "b": rng.normal(size=(7,)).astype(np.float16)}
    for name, values in tensors.items():
        writer.add_tensor(name, values)
    blocks = rng.integers(0, 256, (2, 3, 2 * 34), dtype=np.uint8)
    writer.add_tensor("c", blocks, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return {**tensors, "c": blocks}


def test_a_file_of_the_reference_writer_is_read_back(tmp_path: Path) -> None:
    written = write_with_oracle(tmp_path / "model.gguf")
    container = read_container(tmp_path / "model.gguf")
    values = dict(container.metadata)
    assert (container.version, values.pop("general.architecture")) == (3, "llama")
    strings, ints, bools = (values.pop(f"x.{name}") for name in ("strings", "ints", "bools"))
    assert isinstance(strings, StringArray)
    assert list(strings) == ["a", "", "bc" * 200]
    assert isinstance(ints, np.ndarray)
    assert isinstance(bools, np.ndarray)
    assert (ints.tolist(), bools.tolist()) == ([3, -4], [True, False])
    assert values == {
        "x.u8": 200,
        "x.i8": -100,
        "x.u16": 60000,
        "x.i16": -30000,
        "x.u32": 4_000_000_000,
        "x.i32": -2_000_000_000,
        "x.u64": 1 << 63,
        "x.i64": -(1 << 62),
        "x.f32": 1e-6,
        "x.f64": 1 / 3,
        "x.bool": True,
        "x.string": "caf\u00e9",
    }
    shapes = {name: (tensor.info.shape, tensor.info.scheme) for name, tensor in container.tensors.items()}
    assert shapes == {"a.weight": ((3, 5), "F32"), "b": ((7,), "F16"), "c": ((2, 3, 64), "Q8_0")}
    for name, tensor in container.tensors.items():
        raw = container.file.rows(tensor.offset, 1, tensor.info.nbytes)
        assert raw.tobytes() == written[name].tobytes()


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("alignment", [8, 32, 4096])
def test_versions_and_alignments(tmp_path: Path, version: int, alignment: int) -> None:
    tensors = [gguf_matrix("a", 3, 5), gguf_matrix("b", 1, 1), gguf_matrix("c", 2, 2)]
    raw = gguf_bytes([("general.alignment", u32(alignment))], tensors, version=version, alignment=alignment)
    path = tmp_path / "model.gguf"
    path.write_bytes(raw)
    container = read_container(path)
    for tensor in tensors:
        placed = container.tensors[tensor.name.decode()]
        assert placed.offset % alignment == 0
        assert container.file.rows(placed.offset, 1, placed.info.nbytes).tobytes() == tensor.payload


def test_padding_behind_the_last_tensor_is_allowed_and_more_is_not(tmp_path: Path) -> None:
    raw = gguf_bytes([("a", text("b"))], [gguf_matrix("a", 3, 3)])
    path = tmp_path / "model.gguf"
    padded = raw + bytes(-len(raw) % 32)
    path.write_bytes(padded)
    assert read_container(path).tensors["a"].info.nbytes == 36
    path.write_bytes(padded + bytes(1))
    with pytest.raises(CheckpointError, match="has 1 bytes behind the last tensor"):
        read_container(path)


def test_reading_copies_no_weights(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(gguf_bytes([], [gguf_matrix("a", 3, 3)]))
    container = read_container(path)
    rows = container.file.rows(container.tensors["a"].offset, 3, 12)
    assert np.shares_memory(rows, container.file.data)
    assert not rows.flags.writeable
