"""A GGUF's tokenizer, template and defaults as the files of a Hugging Face directory.

The tokenizer is built as it is served and written down by its library, so that what transformers loads is what runs
here. Ends of texts are all those that stop a text here, also the ones that a GGUF implies by their spelling.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from pelton.checkpoint.contract import Checkpoint, GenerationDefaults
from pelton.tokenization import make_tokenizer
from pelton.tokenization.source import GgufTokenizerSource

if TYPE_CHECKING:
    from pelton.tokenization.tokenizer import Tokenizer

_IDS: Final = {
    "bos_token": "bos_token_id",
    "eos_token": "eos_token_id",
    "unk_token": "unknown_token_id",
    "pad_token": "padding_token_id",
    "sep_token": "seperator_token_id",
    "mask_token": "mask_token_id",
}


def make_tokenizer_files(source: GgufTokenizerSource, tokenizer: Tokenizer, max_position: int) -> dict[str, bytes]:
    """tokenizer.json, tokenizer_config.json and templates, by name."""
    config: dict[str, Any] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": max_position,
        "clean_up_tokenization_spaces": False,
        **{name: source.tokens[source.ids[key]] for name, key in _IDS.items() if key in source.ids},
        **{name: value for name, value in source.flags.items() if name in ("add_bos_token", "add_eos_token")},
    }
    files = {
        "tokenizer.json": tokenizer.save().encode(),
        "tokenizer_config.json": encode_json(config),
    }
    if source.chat_template is not None:
        files["chat_template.jinja"] = source.chat_template.encode()
    for name, template in source.chat_templates.items():
        files[f"additional_chat_templates/{name}.jinja"] = template.encode()
    return files


def make_generation(checkpoint: Checkpoint, tokenizer: Tokenizer | None) -> dict[str, Any]:
    """generation_config.json: every end, and the sampling defaults that the source names."""
    defaults = checkpoint.generation
    config: dict[str, Any] = {}
    if defaults.bos_token_id is not None:
        config["bos_token_id"] = defaults.bos_token_id
    ends = list_ends(defaults, tokenizer)
    if ends:
        config["eos_token_id"] = ends[0] if len(ends) == 1 else ends
    sampling = {
        "temperature": defaults.temperature,
        "top_p": defaults.top_p,
        "top_k": defaults.top_k,
        "min_p": defaults.min_p,
        "repetition_penalty": defaults.repetition_penalty,
        "max_new_tokens": defaults.max_new_tokens,
    }
    given = {name: value for name, value in sampling.items() if value is not None}
    if defaults.temperature == 0.0:
        given |= {"do_sample": False}
        del given["temperature"]
    elif given:
        given["do_sample"] = True
    return {**config, **given}


def list_ends(defaults: GenerationDefaults, tokenizer: Tokenizer | None) -> list[int]:
    """Every id that ends a text: the checkpoint's first, then the tokenizer's."""
    more = () if tokenizer is None else sorted(tokenizer.end_token_ids)
    return list(dict.fromkeys((*defaults.eos_token_ids, *more)))


def make_ids(checkpoint: Checkpoint, tokenizer: Tokenizer | None) -> dict[str, Any]:
    """bos_token_id, eos_token_id and pad_token_id for config.json, null where there is none: classes have defaults."""
    generation = make_generation(checkpoint, tokenizer)
    ids: dict[str, Any] = {"bos_token_id": None, "eos_token_id": None, "pad_token_id": None}
    ids |= {name: value for name, value in generation.items() if name in ids}
    source = checkpoint.tokenizer_source if tokenizer is not None else None
    if isinstance(source, GgufTokenizerSource) and "padding_token_id" in source.ids:
        ids["pad_token_id"] = source.ids["padding_token_id"]
    return ids


def open_tokenizer(checkpoint: Checkpoint) -> Tokenizer | None:
    """The checkpoint's tokenizer, or None for a model that has none. Raises CheckpointError for a broken one."""
    return make_tokenizer(checkpoint.tokenizer_source) if checkpoint.has_tokenizer else None


def encode_json(value: Any) -> bytes:
    """As transformers writes it: two spaces, Unicode as it is, a newline at the end."""
    return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode()
