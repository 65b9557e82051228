"""What the writer writes, torch and our strict reader read back the same."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pelton.checkpoint.hf.shards import read_weights
from pelton.checkpoint.outgoing import Outgoing
from pelton.checkpoint.pytorch import writer
from pelton.checkpoint.pytorch.rebuild import DTYPES
from pelton.checkpoint.pytorch.weights import read_pytorch
from pelton.checkpoint.pytorch.writer import encode_state_dict, write_pytorch, write_pytorch_file
from pelton.checkpoint.scheme import row_bytes
from pelton.errors import CheckpointError

pytestmark = pytest.mark.unit

SCHEMES = sorted(DTYPES.values())
TORCH_DTYPES = {scheme: getattr(torch, name) for name, scheme in DTYPES.items()}


def make(name: str, shape: tuple[int, ...], scheme: str, seed: int = 0) -> Outgoing:
    shaped = (int(np.prod(shape[:-1], dtype=np.int64)), row_bytes(scheme, shape[-1] if shape else 1))
    high = 2 if scheme == "BOOL" else 256
    return Outgoing(name, shape, scheme, lambda: np.random.default_rng(seed).integers(0, high, shaped, np.uint8))


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    kinds=st.lists(st.tuples(st.sampled_from(SCHEMES), st.lists(st.integers(0, 3), max_size=4)), max_size=6),
    most=st.sampled_from([1, 100, 10**9]),
)
def test_what_is_written_is_read_back(tmp_path: Path, kinds: list[tuple[str, list[int]]], most: int) -> None:
    tensors = [
        make(f"t{index}", (*shape, 4) if scheme == "F4" else tuple(shape), scheme, index)
        for index, (scheme, shape) in enumerate(kinds)
    ]
    for path in tmp_path.iterdir():
        path.unlink()
    write_pytorch(tmp_path, tensors, max_shard_bytes=most)
    placed = read_weights(tmp_path)
    loaded: dict[str, torch.Tensor] = {}
    for path in tmp_path.glob("*.bin"):
        loaded |= torch.load(path, weights_only=True)
    assert set(placed) == set(loaded) == {tensor.name for tensor in tensors}
    for tensor in tensors:
        info, theirs = placed[tensor.name].info, loaded[tensor.name]
        assert (info.shape, info.scheme) == (tensor.shape, tensor.scheme)
        assert theirs.dtype == TORCH_DTYPES[tensor.scheme]
        assert theirs.is_contiguous()
        assert placed[tensor.name].flat().tobytes() == tensor.make().tobytes()
        if tensor.nbytes:
            assert theirs.reshape(-1).view(torch.uint8).numpy().tobytes() == tensor.make().tobytes()


def test_equal_input_gives_equal_bytes_that_other_readers_accept(tmp_path: Path) -> None:
    tensors = [make("a", (2, 3), "F32"), make("\u00e4.b", (5,), "F8_E4M3", 1)]
    for name in "12":
        write_pytorch_file(tmp_path / name, tensors)
    assert (tmp_path / "1").read_bytes() == (tmp_path / "2").read_bytes()
    with zipfile.ZipFile(tmp_path / "1") as archive:
        assert archive.testzip() is None
    mapped = torch.load(tmp_path / "1", weights_only=True, mmap=True)
    assert list(mapped) == ["a", "\u00e4.b"]


def test_records_are_aligned(tmp_path: Path) -> None:
    write_pytorch(tmp_path, [make(name, (size,), "U8") for name, size in zip("abc", (1, 63, 64), strict=True)])
    assert all(placed.offset % 64 == 0 for placed in read_pytorch(tmp_path / "pytorch_model.bin").values())


def test_shards_are_named_by_an_index(tmp_path: Path) -> None:
    tensors = [make(name, (size,), "U8") for name, size in zip("abc", (60, 40, 30), strict=True)]
    counted: list[int] = []
    write_pytorch(tmp_path, tensors, max_shard_bytes=100, on_bytes=counted.append)
    index = json.loads((tmp_path / "pytorch_model.bin.index.json").read_text())
    assert index["metadata"]["total_size"] == 130
    assert [index["weight_map"][name][14:19] for name in "abc"] == ["00001", "00001", "00002"]
    assert counted == [60, 40, 30]


def test_more_names_than_one_opcode_sets(tmp_path: Path) -> None:
    write_pytorch(tmp_path, [make(f"t{index}", (1,), "U8") for index in range(2100)])
    assert len(torch.load(tmp_path / "pytorch_model.bin", weights_only=True)) == 2100
    assert len(read_pytorch(tmp_path / "pytorch_model.bin")) == 2100


def test_large_records_have_zip64_sizes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The border is moved down to 200 bytes for the writer, and for the reader's view of masked fields not at all."""
    monkeypatch.setattr(writer, "_LIMIT", 200)
    write_pytorch(tmp_path, [make("a", (300,), "U8")])
    raw = (tmp_path / "pytorch_model.bin").read_bytes()
    assert raw.count(b"\x01\x00\x10\x00" + (300).to_bytes(8, "little") * 2) == 1  # in the header of the record
    assert raw.count(b"\x01\x00\x18\x00" + (300).to_bytes(8, "little") * 2) == 1  # in the directory, with its place


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ([make("a", (2,), "F32"), make("a", (2,), "F32")], "two tensors are called 'a'"),
        ([make("a", (2, 32), "Q8_0")], "stored as Q8_0, which PyTorch's files do not have"),
        ([make("a", (2, 4), "F6_E2M3")], "stored as F6_E2M3, which PyTorch's files do not have"),
        ([Outgoing("a", (2,), "F32", lambda: np.zeros((1, 4), np.uint8))], "takes 8"),
    ],
)
def test_what_pytorch_cannot_hold_is_refused(tmp_path: Path, tensors: list[Outgoing], message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        write_pytorch(tmp_path, tensors)


def test_integers_beyond_32_bits() -> None:
    raw = encode_state_dict(Path("x"), [Outgoing("a", (1 << 31, 2), "U8", lambda: np.zeros((1, 0), np.uint8))])
    assert b"\x8a\x08" + (1 << 32).to_bytes(8, "little") in raw
