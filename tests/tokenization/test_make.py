"""Both kinds of source lead to a tokenizer, and the real models of the catalog encode as their definitions do."""

import struct
import unicodedata
from pathlib import Path
from random import Random
from time import process_time

import pytest
import sentencepiece
from tests.tokenization.small_tokenizers import NASTY_TEXTS, byte_level_oracle, gguf_of_byte_level

from pelton.checkpoint.checkpoint import open_checkpoint
from pelton.checkpoint.hub import where
from pelton.tokenization import GgufTokenizerSource, HfTokenizerSource, Tokenizer, make_tokenizer


@pytest.mark.unit
def test_two_sources_of_one_tokenizer_agree(tmp_path: Path) -> None:
    library = byte_level_oracle("qwen2")
    library.save(str(tmp_path / "tokenizer.json"))
    hf = HfTokenizerSource(
        tokenizer_json=tmp_path / "tokenizer.json",
        tokenizer_config={},
        special_tokens={},
        chat_template=None,
        chat_templates={},
    )
    one, other = make_tokenizer(hf), make_tokenizer(gguf_of_byte_level(library, "qwen2"))
    assert one.vocab_size == other.vocab_size
    assert one.special_ids == other.special_ids
    assert one.encode_batch(NASTY_TEXTS) == other.encode_batch(NASTY_TEXTS)


def open_model(name: str) -> GgufTokenizerSource:
    path = where(name)
    if path is None:
        pytest.skip(f"{name} is not in the cache; run tools/fetch_models.py {name}")
    source = open_checkpoint(path).tokenizer_source
    assert isinstance(source, GgufTokenizerSource)
    return source


def build(source: GgufTokenizerSource, limit_s: float) -> Tokenizer:
    start_s = process_time()
    tokenizer = make_tokenizer(source)
    assert process_time() - start_s < limit_s
    return tokenizer


def texts() -> list[str]:
    random = Random(1)
    alphabet = "abcde  \u2581\n\tAB'sltre0123456789.,<>_\u00e9\u00df\u0436\u4f60\u597d\U0001f916\u0301\u200d"
    return [
        Path(__file__).read_text(encoding="utf-8"),
        *(text for text in NASTY_TEXTS if "\0" not in text),
        *("".join(random.choices(alphabet, k=random.randint(1, 80))) for _ in range(2000)),
    ]


@pytest.mark.cpu
def test_gemma_encodes_as_sentencepiece_does() -> None:
    source = open_model("gemma-3-270m")
    tokenizer = build(source, 5.0)
    oracle = sentencepiece.SentencePieceProcessor(model_proto=sentencepiece_file(source))
    for text in texts():
        ids = tokenizer.encode(text, add_special_tokens=False, parse_special=False)
        assert ids == oracle.encode(text), text
        assert tokenizer.decode(ids) == text.replace("\u2581", " ")
    assert tokenizer.encode("a")[0] == tokenizer.bos_token_id == 2


@pytest.mark.cpu
def test_qwen_encodes_known_texts() -> None:
    source = open_model("demo")
    tokenizer = build(source, 3.0)
    # The ids of Qwen2Tokenizer of transformers for the same vocabulary.
    assert tokenizer.encode("Hello  world! 12 \U0001f916<|im_end|>") == [
        9707,
        220,
        1879,
        0,
        220,
        16,
        17,
        11162,
        97,
        244,
        151645,
    ]
    for text in texts():
        assert tokenizer.decode(tokenizer.encode(text, parse_special=False)) == unicodedata.normalize("NFC", text)
    assert tokenizer.end_token_ids == {151643, 151645}
    assert tokenizer.special_texts["eos_token"] == "<|im_end|>"


def sentencepiece_file(source: GgufTokenizerSource) -> bytes:
    """A SentencePiece model with the vocabulary of a GGUF file: BPE, byte fallback, no dummy prefix."""
    pieces = []
    for text, score, kind in zip(source.tokens, source.scores, source.token_types, strict=True):
        is_user_defined = kind == 4
        piece = text.replace(" ", "\u2581").encode() if is_user_defined else text.encode()
        body = bytes_field(1, piece) + b"\x15" + struct.pack("<f", 0.0 if is_user_defined else score)
        pieces.append(bytes_field(1, body + int_field(3, 2 if text == "<unk>" else kind)))
    trainer = int_field(3, 2) + int_field(4, len(pieces)) + int_field(35, 1)
    normalizer = bytes_field(1, b"identity") + int_field(3, 0) + int_field(4, 0) + int_field(5, 1)
    return b"".join(pieces) + bytes_field(2, trainer) + bytes_field(3, normalizer)


def bytes_field(number: int, value: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(value)) + value


def int_field(number: int, value: int) -> bytes:
    return varint(number << 3) + varint(value)


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])
