"""The alphabet of byte-level BPE: one printable character for each of the 256 bytes.

Bytes that are printable in Latin-1 stand for themselves; the other 68 are numbered from U+0100 upward in byte order
(Radford et al. 2019, GPT-2). A vocabulary written in it is plain text and holds any byte sequence.
"""

from functools import cache


@cache
def char_of_byte() -> tuple[str, ...]:
    """The character that stands for each byte, by byte.

    >>> char_of_byte()[0x20], char_of_byte()[0x41]
    ('\\u0120', 'A')
    """
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return tuple(chr(byte) if byte in printable else chr(next(others)) for byte in range(256))


@cache
def byte_of_char() -> dict[str, int]:
    """The inverse of `char_of_byte`."""
    return {char: byte for byte, char in enumerate(char_of_byte())}


def bytes_of_piece(piece: str) -> bytes:
    """The bytes a vocabulary piece stands for. A piece with a character outside the alphabet is taken as plain text."""
    table = byte_of_char()
    try:
        return bytes([table[char] for char in piece])
    except KeyError:
        return piece.encode()
