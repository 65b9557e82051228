"""Small vocabularies trained on the spot by the libraries that define the algorithms: the oracles of these tests."""

import io
import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import sentencepiece
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from pelton.tokenization.pre_tokenizer import find_pre_tokenizer
from pelton.tokenization.source import GgufTokenizerSource

CONTROL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
TOOL_TOKEN = "<tool_call>"

NASTY_TEXTS = (
    "",
    " ",
    "a",
    "Hello  world!",
    "  leading and trailing   ",
    "tabs\tand\nnew\n\n\nlines\r\n  \r",
    "1 22 333 4444 123456789",
    "It's WE'LL they'Re l'\u00e9t\u00e9",
    "\u4f60\u597d\u4e16\u754c\u3002 \u3053\u3093\u306b\u3061\u306f",
    "\U0001f916\U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f3f3\ufe0f\u200d\U0001f308",
    "e\u0301 \u00e9 \u212b A\u030a",
    "\u0639\u0631\u0628\u064a \u05e2\u05d1\u05e8\u05d9\u05ea \u0e44\u0e17\u0e22",
    "def f(x):\n        return x  # \u00a0 \u3000",
    "https://example.org/a?b=c&d=%20",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "\u00a0\u2003\u200b\ufeff",
    "\x00\x01\x7f\u0085",
    "<|im_start|>user\nhi<|im_end|>",
    "a<tool_call>b <tool_call> c",
    "<0x41><unk><s></s>",
    "\u2581 \u2581\u2581a",
    "\U0010fffd\ue000",
)


@cache
def training_text() -> str:
    """Prose, code and several scripts; enough for a few hundred merges."""
    return Path(__file__).read_text(encoding="utf-8") * 2 + "\n".join(NASTY_TEXTS[:16]) * 4


def byte_level_oracle(pre: str, vocab_size: int = 600) -> Tokenizer:
    """A byte-level BPE trained and run by the library with the rule of `pre`."""
    rule = find_pre_tokenizer(pre)
    tokenizer = Tokenizer(models.BPE(ignore_merges=rule.takes_whole_words))
    if rule.is_nfc:
        tokenizer.normalizer = normalizers.NFC()
    splits = [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in rule.patterns]
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*splits, byte_level])
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=vocab_size, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator([training_text()], trainer)
    tokenizer.add_special_tokens([AddedToken(text, normalized=False, special=True) for text in CONTROL_TOKENS])
    tokenizer.add_tokens([AddedToken(TOOL_TOKEN, normalized=False)])
    return tokenizer


def gguf_of_byte_level(oracle: Tokenizer, pre: str) -> GgufTokenizerSource:
    """What a converter writes into a GGUF file for a byte-level tokenizer."""
    vocabulary = oracle.get_vocab()
    tokens = sorted(vocabulary, key=vocabulary.__getitem__)
    types = [3 if text in CONTROL_TOKENS else 4 if text == TOOL_TOKEN else 1 for text in tokens]
    merges = [" ".join(pair) for pair in json.loads(oracle.to_str())["model"]["merges"]]
    return GgufTokenizerSource(
        model="gpt2",
        pre=pre,
        tokens=tokens,
        scores=[],
        token_types=types,
        merges=merges,
        ids={"bos_token_id": vocabulary[CONTROL_TOKENS[0]], "eos_token_id": vocabulary[CONTROL_TOKENS[2]]},
        flags={"add_bos_token": False},
        chat_template=None,
    )


@dataclass
class SentencePieceModel:
    """What a `.model` file of SentencePiece holds, as far as tokenization needs it."""

    pieces: list[str] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    types: list[int] = field(default_factory=list)
    charsmap: bytes = b""


def train_sentencepiece(model_type: str, **options: object) -> tuple[sentencepiece.SentencePieceProcessor, bytes]:
    """A SentencePiece model trained on the text, and its file."""
    file = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(training_text().splitlines()),
        model_writer=file,
        model_type=model_type,
        vocab_size=700,
        character_coverage=0.98,
        minloglevel=2,
        num_threads=1,
        hard_vocab_limit=False,
        user_defined_symbols=[TOOL_TOKEN],
        **options,
    )
    return sentencepiece.SentencePieceProcessor(model_proto=file.getvalue()), file.getvalue()


def gguf_of_sentencepiece(proto: bytes, model: str, **flags: bool) -> GgufTokenizerSource:
    """What a converter writes into a GGUF file for a SentencePiece model."""
    read = read_model(proto)
    return GgufTokenizerSource(
        model=model,
        pre="default",
        tokens=read.pieces,
        scores=read.scores,
        token_types=read.types,
        merges=[],
        ids={"unknown_token_id": 0, "bos_token_id": 1, "eos_token_id": 2},
        flags={"add_bos_token": False, "add_eos_token": False, **flags},
        chat_template=None,
        precompiled_charsmap=read.charsmap,
    )


def read_model(proto: bytes) -> SentencePieceModel:
    """Read a SentencePiece file: field 1 are the pieces (text, score, type), field 3 the normalizer."""
    model = SentencePieceModel()
    for number, value in _fields(proto):
        if number == 1 and isinstance(value, bytes):
            piece = dict(_fields(value))
            model.pieces.append(_bytes(piece[1]).decode())
            model.scores.append(struct.unpack("<f", _bytes(piece.get(2, b"\0\0\0\0")))[0])
            model.types.append(int(piece.get(3, 1)))
        if number == 3 and isinstance(value, bytes):
            model.charsmap = _bytes(dict(_fields(value)).get(2, b""))
    return model


def _bytes(value: int | bytes) -> bytes:
    assert isinstance(value, bytes)
    return value


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a protocol buffer: (number, value)."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = _varint(data, at)
            yield key >> 3, value
        else:
            length, at = _varint(data, at) if kind == 2 else ({1: 8, 5: 4}[kind], at)
            yield key >> 3, data[at : at + length]
            at += length


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at
