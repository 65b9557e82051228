"""Tokens are found where they were put, whatever blocks their request holds."""

import numpy as np
import pytest

from pelton.backends.reference.kv_cache import KVCache, LayerShape

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
