"""Rebuilds a tokenizer from the vocabulary in a GGUF file.

Three models are known, by `tokenizer.ggml.model`: `gpt2` (byte-level BPE: merges from the file, words by the table of
`pre_tokenizer`), `llama` (SentencePiece BPE: merges derived from scores, byte fallback) and `t5` (SentencePiece
unigram). Control tokens become special tokens and user-defined ones plain added tokens, both matched before anything
else. GGUF cannot say whether an added token swallows the white space around it: none does, but for Phi-3, which is
known by its vocabulary.

Takes 0.4 s for Qwen 2 (151,936 tokens) and 1.6 s for Gemma 3 (262,144), of which 0.8 s derive its merges.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pelton.errors import CheckpointError
from pelton.tokenization import byte_alphabet
from pelton.tokenization.borders import add_borders
from pelton.tokenization.library_errors import blame
from pelton.tokenization.pre_tokenizer import PreTokenizerRule, find_pre_tokenizer
from pelton.tokenization.score_merges import collector_paused, compute_merges
from pelton.tokenization.sentencepiece import bytes_of_piece, make_decoder, make_normalizer
from pelton.tokenization.source import GgufTokenizerSource
from pelton.tokenization.tokenizer import SpecialTokens, Tokenizer

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Library

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
_TOKEN_TYPES = frozenset(range(1, 7))
_NUM_BYTES = 256

_END_TEXTS = frozenset(
    {"<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|eom_id|>", "<|end|>", "<|end_of_text|>", "<end_of_turn>", "<EOT>"}
)
"""Control tokens that end a turn in the models that carry them; a file names only one or two of its own."""

_PHI3_TOKEN = "<|placeholder1|>"
_PHI3_KEEPS = frozenset({"<unk>", "<s>", "<|endoftext|>"})
"""In Phi-3 every added token but these swallows the white space after it (its tokenizer.json: rstrip)."""


def make_gguf_tokenizer(source: GgufTokenizerSource) -> Tokenizer:
    """The tokenizer a GGUF file describes. Raises CheckpointError naming the key that is missing or wrong."""
    makers: dict[str, Callable[[GgufTokenizerSource], Tokenizer]] = {
        "gpt2": _make_byte_level,
        "llama": _make_sentencepiece_bpe,
        "t5": _make_unigram,
    }
    if source.model not in makers:
        raise CheckpointError(
            f"tokenizer.ggml.model: {source.model!r} is not supported. Known: {', '.join(sorted(makers))}."
        )
    with blame("GGUF tokenizer"), collector_paused():
        # A reader may decode each string when it is asked for; here every one is asked for several times.
        held = replace(source, tokens=list(source.tokens), merges=list(source.merges))
        _check(held)
        return makers[source.model](held)


def _check(source: GgufTokenizerSource) -> None:
    num_tokens = len(source.tokens)
    if not num_tokens:
        raise CheckpointError("tokenizer.ggml.tokens: the file has no vocabulary.")
    for key, values in (("scores", source.scores), ("token_type", source.token_types)):
        if values and len(values) != num_tokens:
            raise CheckpointError(f"tokenizer.ggml.{key} has {len(values)} entries for {num_tokens} tokens.")
    for key, id_ in source.ids.items():
        if not 0 <= id_ < num_tokens:
            raise CheckpointError(f"tokenizer.ggml.{key} is {id_}, and the vocabulary has {num_tokens} tokens.")
    if not set(source.token_types) <= _TOKEN_TYPES:
        id_ = next(id_ for id_, type_ in enumerate(source.token_types) if type_ not in _TOKEN_TYPES)
        raise CheckpointError(
            f"tokenizer.ggml.token_type of token {id_} is {source.token_types[id_]}; types go from 1 to 6."
        )
    if not all(map(math.isfinite, source.scores)):
        id_ = next(id_ for id_, score in enumerate(source.scores) if not math.isfinite(score))
        raise CheckpointError(f"tokenizer.ggml.scores of token {id_} is {source.scores[id_]}; scores are finite.")
    _check_texts(source.tokens)


def _check_texts(tokens: Sequence[str]) -> None:
    """Two tokens with one text: only one of them could be made of a text, and which one would be a guess."""
    if len(set(tokens)) == len(tokens):
        return
    ids: dict[str, int] = {}
    for id_, text in enumerate(tokens):
        if text in ids:
            raise CheckpointError(
                f"tokenizer.ggml.tokens: tokens {ids[text]} and {id_} are both {text[:50]!r}. The vocabulary is "
                "damaged; convert the model again."
            )
        ids[text] = id_


def _make_byte_level(source: GgufTokenizerSource) -> Tokenizer:
    from tokenizers import Tokenizer as Library  # noqa: PLC0415
    from tokenizers import models  # noqa: PLC0415

    rule = find_pre_tokenizer(source.pre)
    if not source.merges:
        raise CheckpointError("tokenizer.ggml.merges: a byte-level BPE vocabulary cannot be used without its merges.")
    merges = [_split_merge(rank, merge) for rank, merge in enumerate(source.merges)]
    model = models.BPE(_vocabulary(source), merges, ignore_merges=rule.takes_whole_words)
    library = Library(model)
    _cut_like(library, rule)
    return _finish(source, library, byte_alphabet.bytes_of_piece, adds_bos=rule.adds_bos)


def _split_merge(rank: int, merge: str) -> tuple[str, str]:
    left, space, right = merge.partition(" ")
    if not (left and space and right) or " " in right:
        raise CheckpointError(
            f"tokenizer.ggml.merges: entry {rank} is {merge[:50]!r}; expected two pieces and a space."
        )
    return left, right


def _cut_like(library: Library, rule: PreTokenizerRule) -> None:
    from tokenizers import Regex, decoders, normalizers, pre_tokenizers  # noqa: PLC0415

    if rule.is_nfc:
        library.normalizer = normalizers.NFC()
    cuts = [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in rule.patterns]
    to_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    library.pre_tokenizer = pre_tokenizers.Sequence([*cuts, to_bytes])
    library.decoder = decoders.ByteLevel()


def _make_sentencepiece_bpe(source: GgufTokenizerSource) -> Tokenizer:
    from tokenizers import Tokenizer as Library  # noqa: PLC0415
    from tokenizers import models  # noqa: PLC0415

    if not source.scores:
        raise CheckpointError("tokenizer.ggml.scores: a SentencePiece vocabulary cannot be used without its scores.")
    _check_unknown(source)
    normal = [id_ for id_, type_ in enumerate(_types(source)) if type_ == NORMAL]
    merges = compute_merges([source.tokens[id_] for id_ in normal], [source.scores[id_] for id_ in normal])
    model = models.BPE(
        _vocabulary(source), merges, unk_token=_unknown_text(source), fuse_unk=True, byte_fallback=_has_bytes(source)
    )
    return _finish_sentencepiece(source, Library(model), adds_bos=True)


def _make_unigram(source: GgufTokenizerSource) -> Tokenizer:
    from tokenizers import Tokenizer as Library  # noqa: PLC0415
    from tokenizers import models  # noqa: PLC0415

    if not source.scores:
        raise CheckpointError("tokenizer.ggml.scores: a unigram vocabulary cannot be used without its scores.")
    _check_unknown(source)
    types = _types(source)
    normal_scores = [score for score, type_ in zip(source.scores, types, strict=True) if type_ == NORMAL]
    # The library looks for every piece in the text, also those that SentencePiece keeps out of its search.
    never = min(normal_scores, default=0.0) - 1000.0
    pieces = [
        (text, float(score) if type_ in {NORMAL, USER_DEFINED} else never)
        for text, score, type_ in zip(source.tokens, source.scores, types, strict=True)
    ]
    library = Library(models.Unigram(pieces, _unknown_id(source), _has_bytes(source)))
    return _finish_sentencepiece(source, library, adds_bos=False)


def _check_unknown(source: GgufTokenizerSource) -> None:
    if _unknown_id(source) is None and list(source.token_types).count(BYTE) < _NUM_BYTES:
        raise CheckpointError(
            "tokenizer.ggml.unknown_token_id: the vocabulary has neither an unknown token nor one for each byte, so "
            "there are texts that it cannot write. It is incomplete; convert the model again."
        )


def _finish_sentencepiece(source: GgufTokenizerSource, library: Library, *, adds_bos: bool) -> Tokenizer:
    has_space_prefix = source.flags.get("add_space_prefix", True)
    library.normalizer = make_normalizer(
        adds_space=has_space_prefix,
        removes_extra_spaces=source.flags.get("remove_extra_whitespaces", False),
        charsmap=source.precompiled_charsmap,
    )
    library.decoder = make_decoder(strips_first_space=has_space_prefix)
    return _finish(source, library, bytes_of_piece, adds_bos=adds_bos, strips_first_space=has_space_prefix)


def _finish(
    source: GgufTokenizerSource,
    library: Library,
    piece_bytes: Callable[[str], bytes],
    *,
    adds_bos: bool,
    strips_first_space: bool = False,
) -> Tokenizer:
    from tokenizers import AddedToken  # noqa: PLC0415

    types = _types(source)
    special = {CONTROL, UNKNOWN}
    is_phi3 = source.model == "llama" and _PHI3_TOKEN in source.tokens
    # SentencePiece looks for runs of spaces after it has written them as U+2581, which a text may also hold itself.
    after_normalizing = source.model == "llama" and not strips_first_space
    library.add_tokens(
        [
            AddedToken(
                text,
                normalized=after_normalizing and " " in text,
                special=type_ in special,
                rstrip=is_phi3 and text not in _PHI3_KEEPS,
            )
            for text, type_ in zip(source.tokens, types, strict=True)
            if text and (type_ in special or type_ == USER_DEFINED)
        ]
    )
    bos_id, eos_id = source.ids.get("bos_token_id"), source.ids.get("eos_token_id")
    adds_bos = source.flags.get("add_bos_token", adds_bos)
    adds_eos = source.flags.get("add_eos_token", source.model == "t5")
    add_borders(library, bos_id if adds_bos else None, eos_id if adds_eos else None)
    named_ends = {source.ids[key] for key in ("eos_token_id", "eot_token_id", "eom_token_id") if key in source.ids}
    known_ends = {id_ for id_, text in enumerate(source.tokens) if types[id_] == CONTROL and text in _END_TEXTS}
    names = {"bos_token_id", "eos_token_id", "unknown_token_id", "padding_token_id"} & source.ids.keys()
    texts = {_TEMPLATE_NAMES[name]: source.tokens[source.ids[name]] for name in names}
    ends = frozenset(named_ends | known_ends) if source.end_ids is None else source.end_ids
    tokens = SpecialTokens(bos_id=bos_id, eos_id=eos_id, end_ids=ends, texts=texts)
    return Tokenizer(library, tokens, piece_bytes, strips_first_space=strips_first_space)


_TEMPLATE_NAMES = {
    "bos_token_id": "bos_token",
    "eos_token_id": "eos_token",
    "unknown_token_id": "unk_token",
    "padding_token_id": "pad_token",
}


def _types(source: GgufTokenizerSource) -> list[int]:
    return list(source.token_types) if source.token_types else [NORMAL] * len(source.tokens)


def _vocabulary(source: GgufTokenizerSource) -> dict[str, int]:
    return {text: id_ for id_, text in enumerate(source.tokens)}


def _has_bytes(source: GgufTokenizerSource) -> bool:
    return BYTE in source.token_types


def _unknown_id(source: GgufTokenizerSource) -> int | None:
    """The id of what no piece covers; a file need not name it beside its type."""
    if UNKNOWN in source.token_types:
        return source.ids.get("unknown_token_id", list(source.token_types).index(UNKNOWN))
    return source.ids.get("unknown_token_id")


def _unknown_text(source: GgufTokenizerSource) -> str | None:
    id_ = _unknown_id(source)
    return None if id_ is None else source.tokens[id_]
