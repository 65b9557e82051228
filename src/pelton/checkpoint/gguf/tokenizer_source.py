"""The tokenizer's keys of GGUF metadata, each with the type it must have; a key nobody knows is named in the log.

Arrays of tokens, scores and types must be of one length, and no longer than the embedding. Chat templates stand in
`tokenizer.chat_template`, named ones behind it (`tokenizer.chat_template.rag`) with their names in a list beside them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pelton.checkpoint.fields import Fields, short
from pelton.checkpoint.gguf.container import Value
from pelton.checkpoint.gguf.string_array import StringArray
from pelton.observability.log import Log
from pelton.tokenization.source import GgufTokenizerSource

TOKENIZER = "tokenizer.ggml."
END_IDS = "pelton.end_token_ids"
_CHAT_TEMPLATE = "tokenizer.chat_template"
_TEMPLATE_NAMES = "tokenizer.chat_templates"
_MAX_TEMPLATE_BYTES = 4 << 20
_FLAGS = ("add_bos_token", "add_eos_token", "add_sep_token", "add_space_prefix", "remove_extra_whitespaces")
_NOT_HERE = {"add_sep_token": False, "normalizer.lowercase": False}  # what they are in every model that is supported
_KNOWN = frozenset(
    {"model", "pre", "tokens", "scores", "token_type", "token_type_count", "merges", "precompiled_charsmap"}
    | {*_FLAGS, *_NOT_HERE}
)
_INERT = frozenset({_TEMPLATE_NAMES, _CHAT_TEMPLATE, "tokenizer.huggingface.json"})  # the last says the same once more

log = Log("checkpoint")


def read_tokenizer(fields: Fields, metadata: Mapping[str, Value], vocab_size: int) -> GgufTokenizerSource:
    """What the metadata says of the tokenizer. Raises CheckpointError for a value of a wrong type or length."""
    tokens = _strings(fields, "tokens")
    if not tokens:
        raise fields.error("holds no tokenizer: the key tokenizer.ggml.tokens is missing or empty.")
    if len(tokens) > vocab_size:
        raise fields.error(f"has {len(tokens)} tokens and embeddings for only {vocab_size} of them.")
    for name, value in _NOT_HERE.items():
        fields.require(TOKENIZER + name, value)
    _warn_of_unknown(fields, metadata)
    flags = {name: fields.flag(TOKENIZER + name, False) for name in _FLAGS if fields.has(TOKENIZER + name)}
    names = [key.removeprefix(TOKENIZER) for key in metadata if key.startswith(TOKENIZER) and key.endswith("_token_id")]
    ids = {name: read_token_id(fields, name, vocab_size) for name in names}
    return GgufTokenizerSource(
        model=fields.text(TOKENIZER + "model"),
        pre=fields.text(TOKENIZER + "pre", ""),
        tokens=tokens,
        scores=_numbers(fields, "scores", len(tokens), np.floating),
        token_types=_numbers(fields, "token_type", len(tokens), np.integer),
        merges=_strings(fields, "merges"),
        ids={name: token_id for name, token_id in ids.items() if token_id is not None},
        flags=flags,
        chat_template=_template(fields, _CHAT_TEMPLATE) or None,
        end_ids=None if (ends := read_end_ids(fields, vocab_size)) is None else frozenset(ends),
        precompiled_charsmap=_bytes(fields, "precompiled_charsmap"),
        chat_templates=_named_templates(fields, metadata),
    )


def read_token_id(fields: Fields, name: str, vocab_size: int) -> int | None:
    """The id under `tokenizer.ggml.{name}`, which must be one of a token, or None where there is none."""
    token_id = fields.nullable_integer(TOKENIZER + name, minimum=0)
    if token_id is not None and token_id >= vocab_size:
        raise fields.error(f"{TOKENIZER}{name} is {token_id}; the model has {vocab_size} tokens.")
    return token_id


def read_end_ids(fields: Fields, vocab_size: int) -> list[int] | None:
    """All ids that end a text, of a file that was converted here; the format itself has names for three."""
    ends = fields.take(END_IDS)
    if ends is None:
        return None
    is_list = isinstance(ends, np.ndarray) and np.issubdtype(ends.dtype, np.integer)
    if not is_list or not all(0 <= end < vocab_size for end in ends):
        raise fields.error(f"{END_IDS} is not an array of ids below {vocab_size}.")
    numbers: list[int] = ends.tolist()
    return numbers


def _warn_of_unknown(fields: Fields, metadata: Mapping[str, Value]) -> None:
    unknown = [
        key
        for key in metadata
        if key.startswith("tokenizer.")
        and not (key.startswith(f"{_CHAT_TEMPLATE}.") or key in _INERT)
        and not (key.startswith(TOKENIZER) and (key.endswith("_token_id") or key.removeprefix(TOKENIZER) in _KNOWN))
    ]
    if unknown:
        log.warning("keys of the tokenizer are not known and have no effect", file=fields.source, keys=unknown[:20])


def _strings(fields: Fields, name: str) -> Sequence[str]:
    values = fields.take(TOKENIZER + name)
    if values is None:
        return ()
    if not isinstance(values, StringArray):
        raise fields.error(f"{TOKENIZER}{name} is not an array of strings.")
    return values


def _numbers(fields: Fields, name: str, count: int, kind: type) -> Sequence[Any]:
    values = fields.take(TOKENIZER + name)
    if values is None:
        return ()
    if not isinstance(values, np.ndarray) or not np.issubdtype(values.dtype, kind) or len(values) != count:
        raise fields.error(f"{TOKENIZER}{name} is not an array of {count} numbers, one for each token.")
    numbers: list[Any] = values.tolist()
    return numbers


def _bytes(fields: Fields, name: str) -> bytes:
    values = fields.take(TOKENIZER + name)
    if values is None:
        return b""
    if not isinstance(values, np.ndarray) or values.dtype.itemsize != 1 or values.dtype.kind not in "ui":
        raise fields.error(f"{TOKENIZER}{name} is not an array of bytes.")
    return values.tobytes()


def _named_templates(fields: Fields, metadata: Mapping[str, Value]) -> dict[str, str]:
    prefix = f"{_CHAT_TEMPLATE}."
    templates = {key.removeprefix(prefix): _template(fields, key) for key in metadata if key.startswith(prefix)}
    listed = fields.take(_TEMPLATE_NAMES)
    if listed is None:
        return templates
    if not isinstance(listed, StringArray):
        raise fields.error(f"{_TEMPLATE_NAMES} is {short(listed)}; expected an array of strings.")
    missing = [name for name in listed[:100] if name not in templates and name != "default"]
    if missing:
        raise fields.error(f"{_TEMPLATE_NAMES} lists {missing[0]!r}, and there is no key {prefix + missing[0]!r}.")
    return templates


def _template(fields: Fields, key: str) -> str:
    template = fields.text(key, "")
    if len(template.encode()) > _MAX_TEMPLATE_BYTES:
        raise fields.error(f"{key} has {len(template)} characters; a template has at most {_MAX_TEMPLATE_BYTES} bytes.")
    return template
