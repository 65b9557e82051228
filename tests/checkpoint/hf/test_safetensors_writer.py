"""What the writer writes, our strict reader and the safetensors package read back the same."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pelton.checkpoint.hf.safetensors import read_safetensors
from pelton.checkpoint.hf.safetensors_writer import DTYPES, write_safetensors
from pelton.checkpoint.hf.shards import read_weights
from pelton.checkpoint.outgoing import Outgoing
from pelton.checkpoint.scheme import row_bytes
from pelton.errors import CheckpointError

pytestmark = pytest.mark.unit

SCHEMES = sorted(DTYPES)


def make(name: str, shape: tuple[int, ...], scheme: str, seed: int = 0) -> Outgoing:
    shaped = (int(np.prod(shape[:-1], dtype=np.int64)), row_bytes(scheme, shape[-1] if shape else 1))
    high = 2 if scheme == "BOOL" else 256
    return Outgoing(name, shape, scheme, lambda: np.random.default_rng(seed).integers(0, high, shaped, np.uint8))


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    kinds=st.lists(st.tuples(st.sampled_from(SCHEMES), st.lists(st.integers(0, 3), max_size=3)), max_size=6),
    most=st.sampled_from([1, 100, 10**9]),
)
def test_what_is_written_is_read_back(tmp_path: Path, kinds: list[tuple[str, list[int]]], most: int) -> None:
    tensors = [
        make(f"t{index}", (*shape, 4) if "F4" in scheme or "F6" in scheme else tuple(shape), scheme, index)
        for index, (scheme, shape) in enumerate(kinds)
    ]
    for path in tmp_path.iterdir():
        path.unlink()
    write_safetensors(tmp_path, tensors, metadata={"format": "pt"}, max_shard_bytes=most)
    placed = read_weights(tmp_path)
    assert set(placed) == {tensor.name for tensor in tensors}
    for tensor in tensors:
        found = placed[tensor.name]
        assert (found.info.shape, found.info.scheme) == (tensor.shape, tensor.scheme)
        rows = tensor.make()
        assert found.file.data[found.offset : found.offset + tensor.nbytes].tobytes() == rows.tobytes()


def test_the_reference_reads_it_and_equal_input_gives_equal_bytes(tmp_path: Path) -> None:
    tensors = [make("a", (2, 3), "F32"), make("\u00e4.b", (5,), "I64", 1), make("c", (), "F16", 2)]
    for name in "12":
        (tmp_path / name).mkdir()
        write_safetensors(tmp_path / name, tensors, metadata={"format": "pt", "z": "1"})
    raw = (tmp_path / "1" / "model.safetensors").read_bytes()
    assert raw == (tmp_path / "2" / "model.safetensors").read_bytes()
    loaded = safetensors.numpy.load(raw)
    assert set(loaded) == {"a", "\u00e4.b", "c"}
    assert loaded["a"].tobytes() == tensors[0].make().tobytes()
    with safetensors.safe_open(tmp_path / "1" / "model.safetensors", "numpy") as opened:
        assert opened.metadata() == {"format": "pt", "z": "1"}


def test_shards_are_cut_where_they_would_be_too_large(tmp_path: Path) -> None:
    tensors = [make(name, (size,), "U8") for name, size in zip("abcd", (60, 40, 1, 150), strict=True)]
    counted: list[int] = []
    write_safetensors(tmp_path, tensors, metadata={}, max_shard_bytes=100, on_bytes=counted.append)
    index = json.loads((tmp_path / "model.safetensors.index.json").read_text())
    assert index["metadata"]["total_size"] == 251
    assert [index["weight_map"][name][6:11] for name in "abcd"] == ["00001", "00001", "00002", "00003"]
    assert counted == [60, 40, 1, 150]


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ([make("a", (2,), "F32"), make("a", (2,), "F32")], "two tensors"),
        ([make("a", (2, 32), "Q8_0")], "safetensors does not have"),
        ([Outgoing("a", (2,), "F32", lambda: np.zeros((1, 4), np.uint8))], "takes 8"),
    ],
)
def test_what_safetensors_cannot_hold_is_refused(tmp_path: Path, tensors: list[Outgoing], message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        write_safetensors(tmp_path, tensors, metadata={})


def test_an_empty_file_is_a_file(tmp_path: Path) -> None:
    write_safetensors(tmp_path, [], metadata={})
    assert read_safetensors(tmp_path / "model.safetensors") == {}
