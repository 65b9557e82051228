"""End-of-sequence ids and sampling defaults of a Hugging Face directory.

Every source is heard: generation_config.json first, then config.json, then the tokenizer's `eos_token`; a text ends
at any of them. Sampling defaults come from generation_config.json alone. `do_sample: false` means temperature 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pelton.checkpoint.contract import GenerationDefaults
from pelton.checkpoint.fields import Fields, short


def read_generation(
    generation: Fields, configs: Iterable[Fields], tokenizer_config: Mapping[str, Any], vocab_size: int
) -> GenerationDefaults:
    """The defaults. `configs` are config.json and its text_config. Raises CheckpointError for ids out of range."""
    sources = (generation, *configs)
    ends = [token_id for source in sources for token_id in _read_ids(source, "eos_token_id", vocab_size)]
    ends += _ids_of_text(tokenizer_config, "eos_token", vocab_size)
    begins = [token_id for source in sources for token_id in _read_ids(source, "bos_token_id", vocab_size)]
    temperature = generation.nullable_number("temperature")
    return GenerationDefaults(
        eos_token_ids=tuple(dict.fromkeys(ends)),
        bos_token_id=begins[0] if begins else None,
        temperature=temperature if generation.flag("do_sample", True) else 0.0,
        top_p=generation.nullable_number("top_p"),
        top_k=generation.nullable_integer("top_k", minimum=0),
        min_p=generation.nullable_number("min_p"),
        repetition_penalty=generation.nullable_number("repetition_penalty"),
        max_new_tokens=generation.nullable_integer("max_new_tokens"),
    )


def _read_ids(fields: Fields, name: str, vocab_size: int) -> list[int]:
    """One id, several, or none."""
    value = fields.take(name)
    ids = value if isinstance(value, list) else [] if value is None else [value]
    for token_id in ids:
        if type(token_id) is not int or not 0 <= token_id < vocab_size:
            raise fields.error(f"{name} is {short(value)}; expected ids from 0 to {vocab_size - 1}.")
    return ids


def _ids_of_text(tokenizer_config: Mapping[str, Any], name: str, vocab_size: int) -> list[int]:
    """The id of a special token that the tokenizer's configuration names by its text, if it lists it."""
    token = tokenizer_config.get(name)
    text = token.get("content") if isinstance(token, Mapping) else token
    added = tokenizer_config.get("added_tokens_decoder")
    if not isinstance(text, str) or not isinstance(added, Mapping):
        return []
    ids = [int(key) for key, entry in added.items() if key.isdecimal() and _content(entry) == text]
    return [token_id for token_id in ids if token_id < vocab_size]


def _content(entry: Any) -> Any:
    return entry.get("content") if isinstance(entry, Mapping) else None
