"""What a checkpoint says about its tokenizer, in plain values, before anything is built from it.

A reader of a format fills one of these; `make_tokenizer` builds from it and knows no file format. Nothing here is
checked beyond its type: the checks stand where the values are used. Sources: the layout of `tokenizer.json` and
`tokenizer_config.json`, and the `tokenizer.ggml.*` keys of GGUF.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class HfTokenizerSource:
    """A directory in the layout of Hugging Face: `tokenizer.json` and the files beside it."""

    tokenizer_json: Path
    tokenizer_config: Mapping[str, Any]
    special_tokens: Mapping[str, Any]
    """Contents of special_tokens_map.json, or empty."""
    chat_template: str | None
    chat_templates: Mapping[str, str]
    """Named templates ("tool_use", "rag"), without the default one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GgufTokenizerSource:
    """The `tokenizer.ggml.*` metadata of a GGUF file. `tokens[id]` is the text of an id."""

    model: str
    """`tokenizer.ggml.model`: gpt2, llama or t5."""
    pre: str
    """`tokenizer.ggml.pre`, or empty where the file has none."""
    tokens: Sequence[str]
    scores: Sequence[float]
    """One score for each token, or empty."""
    token_types: Sequence[int]
    """1 normal, 2 unknown, 3 control, 4 user defined, 5 unused, 6 byte; or empty."""
    merges: Sequence[str]
    """"left right" in order of rank, or empty."""
    ids: Mapping[str, int]
    """`bos_token_id`, `eos_token_id`, `unknown_token_id`, ...: the keys that end in _token_id, without their prefix."""
    flags: Mapping[str, bool]
    """`add_bos_token`, `add_eos_token`, `add_space_prefix`, `remove_extra_whitespaces`: those the file has."""
    chat_template: str | None
    precompiled_charsmap: bytes = b""
    """SentencePiece's compiled Unicode table, or empty."""
    end_ids: frozenset[int] | None = None
    """Exactly the ids that end a text, where the file says so; else they follow from `ids` and known spellings."""
    chat_templates: Mapping[str, str] = field(default_factory=dict)
    """`tokenizer.chat_template.<name>` by name, without the default one."""


TokenizerSource = HfTokenizerSource | GgufTokenizerSource
