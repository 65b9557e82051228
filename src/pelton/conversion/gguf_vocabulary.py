"""A tokenizer.json as the vocabulary of a GGUF: pieces and types, merges or scores, the name of how words are cut.

A GGUF has no pipeline, only the name of one (`tokenizer.ggml.pre`), so a pipeline is compared with all that have a
name, and one that is none of them is an error: a near rule gives wrong ids without any. SentencePiece's scores are in
no tokenizer.json; the order of its merges stands for them. What is made is read back and must give the same merges.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pelton.errors import CheckpointError
from pelton.tokenization.gguf_tokenizer import BYTE, CONTROL, NORMAL, UNKNOWN, UNUSED, USER_DEFINED
from pelton.tokenization.pre_tokenizer import PRE_TOKENIZERS
from pelton.tokenization.score_merges import compute_merges
from pelton.tokenization.sentencepiece import SPACE
from pelton.tokenization.source import GgufTokenizerSource, HfTokenizerSource

if TYPE_CHECKING:
    from pelton.tokenization.tokenizer import Tokenizer

Json = Mapping[str, Any]

_GPT2_PATTERN: Final = PRE_TOKENIZERS["gpt-2"].patterns[0]
_ID_NAMES: Final = {
    "bos_token": "bos_token_id",
    "eos_token": "eos_token_id",
    "unk_token": "unknown_token_id",
    "pad_token": "padding_token_id",
    "sep_token": "seperator_token_id",
    "mask_token": "mask_token_id",
}
_END_NAMES: Final = ("eos_token_id", "eot_token_id", "eom_token_id")


def make_vocabulary(
    source: HfTokenizerSource, tokenizer: Tokenizer, vocab_size: int, ends: Sequence[int]
) -> GgufTokenizerSource:
    """What the GGUF of this tokenizer says. `ends` are the ids that end a text, the most usual first.

    Raises CheckpointError, naming tokenizer.json and what of it, for a pipeline that GGUF has no word for.
    """
    where = str(source.tokenizer_json)
    pipeline = json.loads(tokenizer.save())
    model = pipeline["model"]
    if model["type"] != "BPE":
        raise CheckpointError(f"{where}: the model is {model['type']}; only BPE can be written into a GGUF here.")
    merges = [tuple(merge.split(" ", 1)) if isinstance(merge, str) else tuple(merge) for merge in model["merges"]]
    tokens, types = _list_tokens(pipeline, vocab_size, where)
    is_byte_level = any(step["type"] == "ByteLevel" for step in flatten(pipeline["decoder"], "decoders"))
    ids = {_ID_NAMES[name]: tokens.index(text) for name, text in tokenizer.special_texts.items() if name in _ID_NAMES}
    ids |= dict(zip(_END_NAMES, ends, strict=False))
    borders = tokenizer.encode("")
    flags = {
        "add_bos_token": bool(borders) and borders[0] == tokenizer.bos_token_id,
        "add_eos_token": len(borders) > 1 and borders[-1] == tokenizer.eos_token_id,
    }
    pre, scores = "default", list[float]()
    if is_byte_level:
        pre = find_name(pipeline, where)
    else:
        scores = compute_scores(tokens, types, merges, where)
        merges = []
        flags |= read_spaces(pipeline, where)
    return GgufTokenizerSource(
        model="gpt2" if is_byte_level else "llama",
        pre=pre,
        tokens=tokens,
        scores=scores,
        token_types=types,
        merges=[f"{left} {right}" for left, right in merges],
        ids=ids,
        flags=flags,
        chat_template=source.chat_template,
        chat_templates=source.chat_templates,
        precompiled_charsmap=b"" if is_byte_level else read_charsmap(pipeline),
    )


def _list_tokens(pipeline: Json, vocab_size: int, where: str) -> tuple[list[str], list[int]]:
    """Pieces and their types by id. Ids that no piece has are unused ones."""
    unknown, has_bytes = pipeline["model"].get("unk_token"), pipeline["model"].get("byte_fallback", False)
    tokens: list[str | None] = [None] * vocab_size
    types = [UNUSED] * vocab_size
    added = {token["id"]: token for token in pipeline["added_tokens"]}
    pieces = {**{id_: text for text, id_ in pipeline["model"]["vocab"].items()}}
    pieces |= {id_: token["content"] for id_, token in added.items()}
    for id_, text in pieces.items():
        if id_ >= vocab_size:
            raise CheckpointError(f"{where}: {text!r} has the id {id_}, and the model has {vocab_size} tokens.")
        tokens[id_] = text
        if text == unknown:
            types[id_] = UNKNOWN
        elif id_ in added:
            types[id_] = CONTROL if added[id_]["special"] else USER_DEFINED
        else:
            types[id_] = BYTE if has_bytes and len(text) == 6 and text.startswith("<0x") else NORMAL
    return [f"[PAD{id_}]" if text is None else text for id_, text in enumerate(tokens)], types


def find_name(pipeline: Json, where: str) -> str:
    """The `tokenizer.ggml.pre` whose rule is that of the pipeline."""
    rule = read_rule(pipeline)
    for name, known in PRE_TOKENIZERS.items():
        if rule == (known.patterns, known.is_nfc, known.takes_whole_words):
            return name
    cuts = "cuts that are not plain patterns" if rule is None else f"the patterns {list(rule[0])}"
    raise CheckpointError(
        f"{where}: words are cut by {cuts}, which no tokenizer.ggml.pre stands for; a GGUF of it would give other ids. "
        f"Known: {', '.join(sorted(PRE_TOKENIZERS))}."
    )


def read_rule(pipeline: Json) -> tuple[tuple[str, ...], bool, bool] | None:
    """Patterns, whether text is NFC first, whether words that are tokens are taken whole. None: it is no such rule."""
    forms = [step["type"] for step in flatten(pipeline["normalizer"], "normalizers")]
    if forms not in ([], ["NFC"]):
        return None
    patterns: list[str] = []
    for step in flatten(pipeline["pre_tokenizer"], "pretokenizers"):
        if step["type"] == "Split" and not step["invert"] and step["behavior"] == "Isolated":
            patterns.append(step["pattern"].get("Regex", ""))
        elif step["type"] == "Digits" and step["individual_digits"]:
            patterns.append(r"\p{N}")
        elif step["type"] == "ByteLevel" and not step["add_prefix_space"]:
            patterns += [_GPT2_PATTERN] if step["use_regex"] else []
        else:
            return None
    return tuple(patterns), forms == ["NFC"], bool(pipeline["model"].get("ignore_merges", False))


def read_spaces(pipeline: Json, where: str) -> dict[str, bool]:
    """What SentencePiece does with spaces, as flags. Raises CheckpointError for a step that is none of its own."""
    steps = [*flatten(pipeline["normalizer"], "normalizers"), *flatten(pipeline["pre_tokenizer"], "pretokenizers")]
    adds, removes = False, False
    for step in steps:
        match step["type"]:
            case "Prepend" if step["prepend"] == SPACE:
                adds = True
            case "Metaspace":
                adds = step.get("prepend_scheme", "always") != "never"
            case "Replace" if step["pattern"] == {"String": " "} and step["content"] == SPACE:
                pass
            case "Replace" if step["pattern"] == {"Regex": " {2,}"} and step["content"] == " ":
                removes = True
            case "Strip" | "Precompiled":
                pass
            case "Split" if step["pattern"] == {"String": " "} and step["behavior"] == "MergedWithPrevious":
                pass  # Gemma's: a space ends a word, and its merges never reach over one anyway
            case other:
                raise CheckpointError(f"{where}: text is changed by a step {other!r} that a GGUF has no word for.")
    return {"add_space_prefix": adds, "remove_extra_whitespaces": removes}


def read_charsmap(pipeline: Json) -> bytes:
    """SentencePiece's compiled Unicode table, or nothing."""
    for step in flatten(pipeline["normalizer"], "normalizers"):
        if step["type"] == "Precompiled":
            return base64.b64decode(step["precompiled_charsmap"])
    return b""


def compute_scores(
    tokens: Sequence[str], types: Sequence[int], merges: Sequence[tuple[str, ...]], where: str
) -> list[float]:
    """Scores that give the merges back: the first merge's piece has the highest."""
    ranks: dict[str, int] = {}
    for left, right in merges:
        ranks.setdefault(left + right, len(ranks))
    pieces = [text for text, type_ in zip(tokens, types, strict=True) if type_ == NORMAL]
    scores = {text: -float(ranks.get(text, len(ranks) + index)) for index, text in enumerate(pieces)}
    if compute_merges(pieces, [scores[text] for text in pieces]) != [tuple(merge) for merge in merges]:
        raise CheckpointError(
            f"{where}: its merges are not those of any scores of its pieces, which is all that a GGUF would hold. "
            "Use another target format."
        )
    return [scores[text] if type_ == NORMAL else 0.0 for text, type_ in zip(tokens, types, strict=True)]


def flatten(step: Any, inner: str) -> Iterator[Json]:
    """The steps of a part of the pipeline, in order."""
    if step is None:
        return
    if step["type"] != "Sequence":
        yield step
        return
    for each in step[inner]:
        yield from flatten(each, inner)
