"""A tensor's own scale is applied, once; what is no scale is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from gguf import GGMLQuantizationType, quants
from tests.model_files import GgufTensor, llama_gguf

from pelton.checkpoint.dequantize import dequantize
from pelton.checkpoint.gguf.checkpoint import GgufCheckpoint
from pelton.checkpoint.weight import Conversion
from pelton.errors import CheckpointError
from pelton.loading.transform import expert_matrices

pytestmark = pytest.mark.unit

PAYLOAD = np.random.default_rng(0).integers(0, 128, (6, 36), dtype=np.uint8)


def vector(name: str, *values: float, dtype: str = "<f4") -> GgufTensor:
    type_id = {"<f4": 0, "<f2": 1}[dtype]
    return GgufTensor(
        name=name.encode(), dims=(len(values),), type_id=type_id, payload=np.array(values, dtype).tobytes()
    )


def open_with(tmp_path: Path, *more: GgufTensor, dims: tuple[int, ...] = (64, 6), type_id: int = 40) -> GgufCheckpoint:
    weight = GgufTensor(name=b"a.weight", dims=dims, type_id=type_id, payload=PAYLOAD.tobytes())
    (tmp_path / "m.gguf").write_bytes(llama_gguf(tensors=[weight, *more]))
    return GgufCheckpoint(tmp_path / "m.gguf")


def reference() -> np.ndarray:
    return quants.dequantize(PAYLOAD, GGMLQuantizationType.NVFP4).astype(np.float32)


def test_one_scale_for_a_matrix(tmp_path: Path) -> None:
    checkpoint = open_with(tmp_path, vector("a.scale", 0.3), vector("a.input_scale", 7.0))
    assert list(checkpoint.tensors) == ["token_embd.weight", "a.weight"]
    assert list(checkpoint.stored) == ["token_embd.weight", "a.weight", "a.scale", "a.input_scale"]
    info = checkpoint.tensors["a.weight"]
    assert (info.scheme, info.nbytes) == ("NVFP4_SCALED", PAYLOAD.nbytes + 4)
    found = dequantize(checkpoint.read("a.weight"))
    np.testing.assert_array_equal(found, np.float32(0.3) * reference())


def test_one_scale_for_each_expert(tmp_path: Path) -> None:
    checkpoint = open_with(tmp_path, vector("a.scale", 2.0, 3.0), dims=(64, 3, 2))
    found = dequantize(checkpoint.read("a.weight"))
    expected = reference().reshape(2, 3, 64) * np.array([2, 3], np.float32)[:, None, None]
    np.testing.assert_array_equal(found, expected)
    for expert, matrix in enumerate(expert_matrices(checkpoint.read("a.weight"), 2)):
        assert isinstance(matrix.stored, Conversion)  # each is made alone, when it is asked for
        np.testing.assert_array_equal(dequantize(matrix), expected[expert])


def test_without_a_scale_and_with_one_of_one_the_blocks_stay(tmp_path: Path) -> None:
    for more in ([], [vector("a.scale", 1.0)]):
        checkpoint = open_with(tmp_path, *more)
        assert checkpoint.tensors["a.weight"].scheme == "NVFP4"
        np.testing.assert_array_equal(dequantize(checkpoint.read("a.weight")), reference())


def test_other_schemes_become_float32(tmp_path: Path) -> None:
    checkpoint = open_with(tmp_path, vector("a.scale", 0.7), dims=(9, 6), type_id=0)
    plain = PAYLOAD.reshape(-1).view("<f4").reshape(6, 9)
    tensor = checkpoint.read("a.weight")
    assert tensor.scheme == checkpoint.tensors["a.weight"].scheme == "F32"
    np.testing.assert_array_equal(dequantize(tensor), plain * np.float32(0.7))


@pytest.mark.parametrize(
    ("scale", "message"),
    [
        (vector("a.scale", 1.0, 2.0), r"a\.scale is F32 \[2\]; the scale of a\.weight is F32 \[1\]"),
        (vector("a.scale", 1.0, dtype="<f2"), r"a\.scale is F16 \[1\]"),
        (vector("a.scale", float("nan")), "not a number"),
        (vector("a.input_scale", float("inf")), "not a number"),
    ],
)
def test_what_is_no_scale_is_refused(tmp_path: Path, scale: GgufTensor, message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        open_with(tmp_path, scale)


def test_a_scale_of_nothing_is_a_tensor_of_its_own(tmp_path: Path) -> None:
    assert "b.scale" in open_with(tmp_path, vector("b.scale", 2.0)).tensors
