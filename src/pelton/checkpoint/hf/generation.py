"""End-of-sequence ids and sampling defaults of a Hugging Face directory.

Every source is heard: generation_config.json first, then config.json, then the tokenizer's `eos_token`; a text ends
at any of them. Sampling defaults come from generation_config.json alone. `do_sample: false` means temperature 0. What
that file asks for beyond them is named, for somebody to tell.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pelton.checkpoint.contract import GenerationDefaults
from pelton.checkpoint.fields import Fields, short

# Fields of generation_config.json that are followed, those that change no answer, and neutral values of others.
FOLLOWED = {
    *("eos_token_id", "bos_token_id", "do_sample", "temperature", "top_p", "top_k", "min_p", "repetition_penalty")
}
INERT = {
    *("pad_token_id", "transformers_version", "_from_model_config", "use_cache", "return_dict_in_generate"),
    *("output_attentions", "output_hidden_states", "output_scores", "output_logits", "cache_implementation"),
    *("disable_compile", "decoder_start_token_id", "trust_remote_code", "chat_format", "max_window_size"),
}
NEUTRAL: dict[str, tuple[Any, ...]] = {
    "num_beams": (1,),
    "num_return_sequences": (1,),
    "num_beam_groups": (1,),
    "length_penalty": (1.0,),
    "diversity_penalty": (0.0,),
    "typical_p": (1.0,),
    "epsilon_cutoff": (0.0,),
    "eta_cutoff": (0.0,),
    "no_repeat_ngram_size": (0,),
    "encoder_no_repeat_ngram_size": (0,),
    "encoder_repetition_penalty": (1.0,),
    "penalty_alpha": (0.0,),
    "min_length": (0,),
    "early_stopping": (False,),
    "remove_invalid_values": (False,),
    "renormalize_logits": (False,),
    "max_length": (20,),  # transformers' own default, which says nothing
    "presence_penalty": (0.0,),
    "frequency_penalty": (0.0,),
}


def find_unfollowed(document: dict[str, Any]) -> dict[str, Any]:
    """Fields of generation_config.json that ask for something and are not followed."""
    return {
        name: value
        for name, value in document.items()
        if value not in (None, [], {}) and name not in FOLLOWED | INERT and value not in NEUTRAL.get(name, ())
    }


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
        not_followed=tuple(find_unfollowed({name: generation.take(name) for name in generation.names()})),
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
