from pathlib import Path

import pytest
from tests.fakes import tokenizer_json
from tests.inspection.models import found, write

from pelton.errors import CheckpointError
from pelton.inspection.sentencepiece_model import read_pieces

pytestmark = pytest.mark.unit


def piece(text: str) -> bytes:
    """A piece with a score and a type."""
    raw = text.encode()
    inner = bytes([0x0A, len(raw)]) + raw + b"\x15\0\0\x80\x3f" + b"\x18\x01"
    return bytes([0x0A, len(inner)]) + inner


TRAINER = b"\x12\x04abcd"  # field 2, which is not looked at


def test_pieces_by_id(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.model"
    path.write_bytes(piece("<unk>") + TRAINER + piece("\u2581a") + piece(""))
    assert read_pieces(path) == ["<unk>", "\u2581a", ""]


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"\x0a\x7f", "a field of 127 bytes"),
        (b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f", "bytes at 10, and 0 are left"),
        (b"\xff" * 20, "more than 64 bits"),
        (b"\x0a", "in the middle of a number"),
        (b"\x0b", "not a SentencePiece model"),
        (b"", "is empty"),
    ],
)
def test_what_is_no_model(tmp_path: Path, raw: bytes, message: str) -> None:
    (tmp_path / "tokenizer.model").write_bytes(raw)
    with pytest.raises(CheckpointError, match=message):
        read_pieces(tmp_path / "tokenizer.model")


def test_a_model_of_another_vocabulary_is_told(tmp_path: Path) -> None:
    write(tmp_path)
    vocabulary = list(tokenizer_json()["model"]["vocab"])
    for pieces, is_other in ((vocabulary, False), ([*vocabulary[:5], "other", *vocabulary[6:]], True)):
        (tmp_path / "tokenizer.model").write_bytes(b"".join(map(piece, pieces)))
        assert ("tokenizer.vocabulary" in found(tmp_path)) == is_other
    (tmp_path / "tokenizer.model").write_bytes(b"IQ== 0\nIg== 1\n")  # tiktoken's
    assert "tokenizer.vocabulary" not in found(tmp_path)
