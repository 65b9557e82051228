"""Of IQ1 to IQ3, what random bytes cannot show: the meaning of single fields. All else: test_dequantize."""

from __future__ import annotations

import numpy as np
import pytest

from pelton.checkpoint.codebooks import codebook
from pelton.checkpoint.dequantize_codebooks import CODEBOOK_BLOCKS
from pelton.checkpoint.scheme import SCHEMES

pytestmark = pytest.mark.unit


def test_an_index_chooses_a_vector_and_a_sign_turns_an_element() -> None:
    block = np.zeros((1, SCHEMES["IQ3_S"].block_bytes), np.uint8)
    block[0, :2] = (0x00, 0x3C)
    block[0, 2], block[0, 66], block[0, 74] = 7, 1, 0b10  # index 263, minus for the second element
    found = CODEBOOK_BLOCKS["IQ3_S"](block)[0]
    assert found[:4].tolist() == (codebook("IQ3_S")[263] * np.array([1, -1, 1, 1])).tolist()
    assert found[4:8].tolist() == codebook("IQ3_S")[0].tolist()


def test_the_float16_of_iq1_m_is_spread_over_four_words() -> None:
    block = np.zeros((1, SCHEMES["IQ1_M"].block_bytes), np.uint8)
    block[0, 49:57:2] = (0x00, 0x00, 0xC0, 0x30)  # the nibbles of 0x3C00, lowest first
    vector = codebook("IQ1")[0].astype(np.float32)
    assert CODEBOOK_BLOCKS["IQ1_M"](block)[0, :8].tolist() == (vector + 0.125).tolist()
    block[0, 32] = 0x08  # the first eight lower, the next as before
    found = CODEBOOK_BLOCKS["IQ1_M"](block)[0]
    assert found[:8].tolist() == (vector - 0.125).tolist()
    assert found[8:16].tolist() == (vector + 0.125).tolist()
