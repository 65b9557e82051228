"""What SentencePiece does around its pieces: spaces are written as U+2581, and bytes without a piece as <0xHH>.

Used for GGUF vocabularies and, on the way back, for `tokenizer.json` files that decode in this way. With
`adds_space` every stretch of text between special tokens begins with a space of the tokenizer's own, and decoding
takes the first one away again (Kudo & Richardson 2018, arXiv:1808.06226).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenizers import decoders, normalizers

SPACE = "\u2581"
_BYTE_PIECE = re.compile(r"<0x([0-9A-Fa-f]{2})>")


def bytes_of_piece(piece: str) -> bytes:
    """The bytes a piece stands for.

    >>> bytes_of_piece("\\u2581a"), bytes_of_piece("<0xF0>")
    (b' a', b'\\xf0')
    """
    byte = _BYTE_PIECE.fullmatch(piece)
    return bytes([int(byte[1], 16)]) if byte else piece.replace(SPACE, " ").encode()


def make_normalizer(*, adds_space: bool, removes_extra_spaces: bool, charsmap: bytes) -> normalizers.Normalizer:
    """Text as the pieces spell it. `charsmap` is SentencePiece's compiled Unicode table, or empty."""
    from tokenizers import Regex, normalizers  # noqa: PLC0415

    steps: list[normalizers.Normalizer] = []
    if charsmap:
        steps.append(normalizers.Precompiled(charsmap))
    if removes_extra_spaces:
        steps += [normalizers.Strip(), normalizers.Replace(Regex(" {2,}"), " ")]
    if adds_space:
        steps.append(normalizers.Prepend(SPACE))
    return normalizers.Sequence([*steps, normalizers.Replace(" ", SPACE)])


def make_decoder(*, strips_first_space: bool) -> decoders.Decoder:
    """The library's own way back, for tools that use the library directly."""
    from tokenizers import decoders  # noqa: PLC0415

    steps = [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    if strips_first_space:
        steps.append(decoders.Strip(" ", 1, 0))
    return decoders.Sequence(steps)
