"""Bits of bytes in the orders that blocks have them."""

from __future__ import annotations

import numpy as np
import pytest

from pelton.checkpoint.block_bits import bits, half, nibble_pairs, nibbles, spread, two_bits, words

pytestmark = pytest.mark.unit


def test_pieces_of_blocks() -> None:
    blocks = np.array([[0x21, 0x43, 0x00, 0x3C]], np.uint8)
    assert half(blocks, 2).tolist() == [[1.0]]
    assert words(blocks, 0, 2, "<u2").tolist() == [[0x4321]]
    assert nibbles(blocks[:, :2]).tolist() == [[1, 3, 2, 4]]
    assert nibble_pairs(blocks[:, :2]).tolist() == [[1, 2, 3, 4]]
    assert bits(blocks[:, :1]).tolist() == [[1, 0, 0, 0, 0, 1, 0, 0]]
    assert spread(half(blocks, 2), 3).tolist() == [[1.0, 1.0, 1.0]]


def test_two_bits_stand_in_four_runs_of_each_half() -> None:
    packed = np.zeros((1, 64), np.uint8)
    packed[0, 0], packed[0, 33] = 0b11_10_01_00, 0b11
    found = two_bits(packed)[0]
    assert [found[0], found[32], found[64], found[96]] == [0, 1, 2, 3]
    assert found[129] == 3
    assert np.count_nonzero(found) == 4
