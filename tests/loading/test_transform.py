"""Each transform on the numbers it is for, and row operations on raw bytes."""

from dataclasses import replace

import numpy as np
import pytest
from tests.loading.test_weights import SPEC

from pelton.checkpoint.model_spec import LayerSpec, Rope
from pelton.checkpoint.weight import Tensor
from pelton.errors import CheckpointError
from pelton.loading.transform import plus_one, transformed, transpose, unpair_rows

pytestmark = pytest.mark.unit


def tensor(array, scheme="F32"):
    return Tensor("t", array.shape, scheme, np.ascontiguousarray(array).reshape(-1, array.shape[-1]).view(np.uint8))


def permute_as_converters_do(array, num_heads):
    """Half-split pairs to neighbouring ones, along the first axis."""
    return array.reshape(num_heads, 2, -1, *array.shape[1:]).swapaxes(1, 2).reshape(array.shape)


@pytest.mark.parametrize("shape", [(24, 5), (24,)])
@pytest.mark.parametrize("num_heads", [1, 3, 4])
def test_unpair_undoes_the_converters(shape, num_heads):
    array = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    moved = unpair_rows(tensor(permute_as_converters_do(array, num_heads)), num_heads, 24 // num_heads)
    np.testing.assert_array_equal(moved.payload.view(np.float32).reshape(shape), array)
    assert moved.shape == shape


def test_unpair_moves_raw_rows_of_any_scheme():
    payload = np.random.default_rng(0).integers(0, 256, (8, 18), dtype=np.uint8)
    moved = unpair_rows(Tensor("t", (8, 32), "Q4_0", permute_as_converters_do(payload, 2)), 2, 4)
    np.testing.assert_array_equal(moved.payload, payload)
    assert moved.scheme == "Q4_0"


def test_unpair_leaves_the_dimensions_that_do_not_turn():
    array = np.arange(12, dtype=np.float32)
    moved = unpair_rows(tensor(array), 2, 4).payload.view(np.float32).ravel()
    assert moved.tolist() == [0, 2, 1, 3, 4, 5, 6, 8, 7, 9, 10, 11]


def test_unpair_uses_the_heads_of_its_kind():
    spec = replace(SPEC, head_dim=4, layers=(LayerSpec(rope=Rope(theta=1e4, rotary_dim=4)),))
    q, k = np.arange(8, dtype=np.float32), np.arange(4, dtype=np.float32)
    for array, kind, heads in ((q, "rope_rows_q", 2), (k, "rope_rows_k", 1)):
        moved = transformed(tensor(permute_as_converters_do(array, heads)), kind, spec, 0)
        np.testing.assert_array_equal(moved.payload.view(np.float32).ravel(), array)


def test_unpair_refuses_rows_that_are_no_heads():
    with pytest.raises(CheckpointError, match="10 rows, which are not 4 heads"):
        unpair_rows(tensor(np.ones((10, 2), np.float32)), 4, 2)
    with pytest.raises(CheckpointError, match="not 4 heads of 4 dimensions"):
        unpair_rows(tensor(np.ones((8, 2), np.float32)), 4, 4)


@pytest.mark.parametrize("dtype", ["F32", "F16", "BF16"])
def test_plus_one_is_exact_in_float32(dtype):
    w = np.array([0.0, -1.0, 0.0078125, 3.0], np.float32)
    stored = {"F32": w, "F16": w.astype(np.float16), "BF16": (w.view(np.uint32) >> 16).astype(np.uint16)}[dtype]
    result = plus_one(tensor(stored, dtype))
    assert result.scheme == "F32"
    np.testing.assert_array_equal(result.payload.view(np.float32)[0], w + 1)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_transpose(dtype):
    array = np.random.default_rng(0).normal(size=(3, 5)).astype(dtype)
    result = transpose(tensor(array, "F32" if dtype is np.float32 else "F16"))
    assert result.shape == (5, 3)
    np.testing.assert_array_equal(result.payload.view(dtype), array.T)


def test_numbers_of_quantized_tensors_are_not_touched():
    quantized = Tensor("blk.0.norm", (2, 32), "Q4_0", np.zeros((2, 18), np.uint8))
    for transform in ("plus_one", "transpose"):
        with pytest.raises(CheckpointError, match=r"blk\.0\.norm: is stored as Q4_0, but " + transform):
            transformed(quantized, transform, SPEC, None)
