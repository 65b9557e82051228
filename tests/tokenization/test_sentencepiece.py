"""Normalizer, pieces and decoder of SentencePiece."""

import pytest

from pelton.tokenization.sentencepiece import bytes_of_piece, make_decoder, make_normalizer

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("adds_space", "removes_extra_spaces", "text", "expected"),
    [
        (True, False, "a  b", "\u2581a\u2581\u2581b"),
        (False, False, " a", "\u2581a"),
        (True, True, "  a   b  ", "\u2581a\u2581b"),
        (True, False, "", ""),
    ],
)
def test_normalizer(adds_space: bool, removes_extra_spaces: bool, text: str, expected: str) -> None:
    normalizer = make_normalizer(adds_space=adds_space, removes_extra_spaces=removes_extra_spaces, charsmap=b"")
    assert normalizer.normalize_str(text) == expected


@pytest.mark.parametrize(
    ("piece", "expected"), [("\u2581a", b" a"), ("<0x0A>", b"\n"), ("<0xff>", b"\xff"), ("<0x1>", b"<0x1>")]
)
def test_bytes_of_piece(piece: str, expected: bytes) -> None:
    assert bytes_of_piece(piece) == expected


def test_decoder() -> None:
    assert make_decoder(strips_first_space=True).decode(["\u2581a", "\u2581b"]) == "a b"
    assert make_decoder(strips_first_space=False).decode(["\u2581a", "<0xC3>", "<0xA9>"]) == " a\u00e9"
