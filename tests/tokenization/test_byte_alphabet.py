"""The alphabet of byte-level BPE is the library's."""

import pytest
from tokenizers import decoders, pre_tokenizers

from pelton.tokenization.byte_alphabet import byte_of_char, bytes_of_piece, char_of_byte

pytestmark = pytest.mark.unit


def test_same_characters_as_the_library() -> None:
    assert set(char_of_byte()) == set(pre_tokenizers.ByteLevel.alphabet())
    assert byte_of_char() == {char: byte for byte, char in enumerate(char_of_byte())}


def test_every_ascii_byte_decodes_as_in_the_library() -> None:
    for byte in range(128):
        assert decoders.ByteLevel().decode([char_of_byte()[byte]]).encode() == bytes([byte])


def test_pieces() -> None:
    assert bytes_of_piece("\u0120hi\u010a") == b" hi\n"
    assert bytes_of_piece("\u4f60 x") == "\u4f60 x".encode()
