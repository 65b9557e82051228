"""Sound files are read as the safetensors package writes them. Broken ones: tests/attacks."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import SafetensorError, deserialize
from safetensors.torch import save_file
from tests.model_files import safetensors_bytes

from pelton.checkpoint.dequantize import dequantize
from pelton.checkpoint.hf.safetensors import read_safetensors
from pelton.checkpoint.hf.safetensors_writer import DTYPES
from pelton.checkpoint.read_tensor import make_tensor

pytestmark = pytest.mark.unit


def test_a_file_of_the_reference_writer_is_read_back(tmp_path: Path) -> None:
    generator = torch.Generator().manual_seed(0)
    tensors = {
        "f32": torch.randn(3, 5, generator=generator),
        "f16": torch.randn(2, 3, 4, generator=generator).half(),
        "bf16": torch.randn(7, generator=generator).bfloat16(),
        "scalar": torch.tensor(2.5),
        "empty": torch.zeros(0, 4),
    }
    save_file(tensors, tmp_path / "model.safetensors", metadata={"format": "pt"})
    placed = read_safetensors(tmp_path / "model.safetensors")
    assert set(placed) == set(tensors)
    for name, expected in tensors.items():
        tensor = make_tensor(placed[name].file, placed[name].info, placed[name].offset)
        assert tensor.shape == tuple(expected.shape)
        np.testing.assert_array_equal(dequantize(tensor), expected.float().numpy())


@pytest.mark.parametrize("metadata", [{}, {"__metadata__": {}}, {"__metadata__": {"format": "pt"}}])
def test_metadata_may_be_absent_or_empty(tmp_path: Path, metadata: dict[str, dict[str, str]]) -> None:
    header = {**metadata, "a": {"dtype": "U8", "shape": [3], "data_offsets": [0, 3]}}
    (tmp_path / "x").write_bytes(safetensors_bytes(header, b"abc"))
    placed = read_safetensors(tmp_path / "x")["a"]
    assert (placed.info.scheme, placed.info.nbytes) == ("U8", 3)
    assert placed.file.rows(placed.offset, 1, 3).tobytes() == b"abc"


@pytest.mark.parametrize("dtype", sorted(DTYPES))
def test_every_dtype_has_the_size_that_the_reference_gives_it(tmp_path: Path, dtype: str) -> None:
    """The header says 16 elements; of all numbers of bytes the reference takes one."""
    accepted = []
    for num_bytes in range(140):
        raw = safetensors_bytes(
            {"a": {"dtype": dtype, "shape": [16], "data_offsets": [0, num_bytes]}}, bytes(num_bytes)
        )
        with suppress(SafetensorError):
            ((name, tensor),) = deserialize(raw)
            accepted.append(num_bytes)
            assert (name, tensor["shape"], tensor["dtype"]) == ("a", [16], dtype)
            (tmp_path / "x").write_bytes(raw)
    info = read_safetensors(tmp_path / "x")["a"].info
    assert (info.scheme, info.shape, [info.nbytes]) == (dtype, (16,), accepted)


def test_tensors_come_in_the_order_of_their_bytes(tmp_path: Path) -> None:
    header = {
        "z": {"dtype": "U8", "shape": [2], "data_offsets": [3, 5]},
        "a": {"dtype": "F4", "shape": [6], "data_offsets": [0, 3]},
    }
    (tmp_path / "x").write_bytes(safetensors_bytes(header, bytes(5)))
    assert list(read_safetensors(tmp_path / "x")) == ["a", "z"]
