"""Tokens are found where they were put, whatever blocks their request holds."""

import numpy as np
import pytest

from pelton.backends.reference.kv_cache import KVCache, LayerShape, round_to_bfloat16, round_to_int8

pytestmark = pytest.mark.unit

LAYERS = (LayerShape(0, 2, 3, 3), LayerShape(4, 1, 5, 2))


def make_cache(num_blocks=6):
    cache = KVCache(LAYERS, 4, np.dtype(np.float32))
    cache.bind(np.zeros(num_blocks * cache.bytes_per_block, np.uint8), num_blocks)
    return cache


def test_what_is_written_is_read_by_position():
    cache = make_cache()
    rng = np.random.default_rng(0)
    wrote = {}
    for blocks in ([5, 0, 3], [1, 4, -1]):
        table = np.array(blocks, np.int32)
        positions = np.arange(4 * (table >= 0).sum() - 1, dtype=np.int32)
        for shape in LAYERS:
            k = rng.normal(size=(len(positions), shape.num_kv_heads, shape.key_dim)).astype(np.float32)
            v = rng.normal(size=(len(positions), shape.num_kv_heads, shape.value_dim)).astype(np.float32)
            for part in (positions[:3], positions[3:]):
                cache.write(shape.layer, table, part, k[part], v[part])
            wrote[shape.layer, tuple(table)] = (table, positions, k, v)
    for (layer, _), (table, positions, k, v) in wrote.items():
        k_read, v_read = cache.read(layer, table, positions[::-1])
        np.testing.assert_array_equal(k_read[::-1], k)
        np.testing.assert_array_equal(v_read[::-1], v)


def test_bytes_of_a_block_and_too_little_memory():
    cache = KVCache(LAYERS, 4, np.dtype(np.float64))
    assert cache.bytes_per_block == 4 * (2 * 6 + 7) * 8
    with pytest.raises(AssertionError, match="2 blocks need"):
        cache.bind(np.zeros(2 * cache.bytes_per_block - 1, np.uint8), 2)
    cache.bind(np.zeros(2 * cache.bytes_per_block, np.uint8), 2)
    with pytest.raises(AssertionError, match="has its memory"):
        cache.bind(np.zeros(2 * cache.bytes_per_block, np.uint8), 2)


def test_tokens_without_a_block_are_caught():
    cache = make_cache()
    table = np.array([2, -1], np.int32)
    with pytest.raises(AssertionError, match="no block for a token"):
        cache.write(0, table, np.array([4], np.int32), np.zeros((1, 2, 3)), np.zeros((1, 2, 3)))
    with pytest.raises(AssertionError, match="lacks a block"):
        cache.read(0, table, np.array([0, 4], np.int32))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_int8_keeps_half_a_step_of_each_head(dtype):
    """Within 1/254 of the largest of the head, which is exact; zeros stay zeros; not finite becomes nan."""
    x_NKD = np.random.default_rng(0).normal(size=(40, 3, 9)).astype(dtype)
    x_NKD[7, 1] = 0
    rounded = round_to_int8(x_NKD)
    assert rounded.dtype == dtype
    step_NK1 = np.abs(x_NKD).max(-1, keepdims=True) / 127
    assert (np.abs(rounded - x_NKD) <= 0.5001 * step_NK1).all()
    assert (rounded[7, 1] == 0).all()
    np.testing.assert_allclose(np.abs(rounded).max(-1), np.abs(x_NKD).max(-1), rtol=1e-6)
    x_NKD[3, 2, 5], x_NKD[4, 0, 0] = np.inf, np.nan
    again = round_to_int8(x_NKD)
    assert np.isnan(again[3, 2]).all()
    assert np.isnan(again[4, 0]).all()
    np.testing.assert_array_equal(again[:3], rounded[:3])


def test_bfloat16_rounds_to_nearest_even():
    x = np.array([1.0, 1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-8 + 2**-20, -(1 + 2**-9), np.nan, np.inf], np.float32)
    expected = np.array([1.0, 1.0, 1 + 2**-6, 1 + 2**-7, -1.0, np.nan, np.inf], np.float32)
    np.testing.assert_array_equal(round_to_bfloat16(x), expected)


def test_what_is_read_was_rounded():
    cache = KVCache((LayerShape(0, 1, 2, 2),), 4, np.dtype(np.float32), "int8")
    cache.bind(np.zeros(cache.bytes_per_block, np.uint8), 1)
    x_NKD = np.array([[[1.0, 0.3]]], np.float32)
    table, positions = np.array([0], np.int32), np.array([0], np.int32)
    cache.write(0, table, positions, x_NKD, 2 * x_NKD)
    k, v = cache.read(0, table, positions)
    np.testing.assert_allclose(k, [[[1.0, 38 / 127]]], rtol=1e-6)
    np.testing.assert_allclose(v, [[[2.0, 76 / 127]]], rtol=1e-6)
