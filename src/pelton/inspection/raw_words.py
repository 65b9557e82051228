"""What can be said of a model that was refused: its own words, taken from config.json or GGUF keys without belief.

Only whole numbers and short texts under well-known names are repeated; nothing is computed from them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pelton.checkpoint.fields import short

# What is said, and the names that families have for it.
_SIZES: Mapping[str, tuple[str, ...]] = {
    "layers": ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "block_count"),
    "channels": ("hidden_size", "n_embd", "d_model", "embedding_length"),
    "heads": ("num_attention_heads", "n_head", "n_heads", "attention.head_count"),
    "key/value heads": ("num_key_value_heads", "attention.head_count_kv"),
    "channels of the MLP": ("intermediate_size", "n_inner", "d_ff", "feed_forward_length"),
    "experts": ("num_experts", "num_local_experts", "n_routed_experts", "expert_count"),
}
_ROWS = ("vocab_size",)
_LENGTHS = ("max_position_embeddings", "n_positions", "seq_length", "max_seq_len", "context_length")


def describe_refused(config: Mapping[str, Any], metadata: Mapping[str, Any]) -> dict[str, str]:
    """Facts in words, as far as the files give them; nothing for a file without a configuration."""
    fields, architecture = _fields(config, metadata)
    if not fields:
        return {}
    facts = {"architecture": f"{architecture} (as the file says)"} if architecture else {}
    sizes = [f"{value:,} {what}" for what, names in _SIZES.items() if (value := _find(fields, names)) is not None]
    if sizes:
        facts["sizes"] = ", ".join(sizes)
    for what, names in (("context", _LENGTHS), ("vocabulary", _ROWS)):
        value = _find(fields, names)
        if value is not None:
            facts[what] = f"{value:,} {'positions' if what == 'context' else 'rows'}"
    return facts | describe_quantization(config)


def describe_quantization(config: Mapping[str, Any]) -> dict[str, str]:
    """The method that config.json names, with its bits and groups where it gives them.

    >>> describe_quantization({"quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": 128}})
    {'quantization': 'gptq, 4 bits, groups of 128'}
    """
    nested = config.get("text_config")
    levels = [config, nested if isinstance(nested, Mapping) else {}]
    settings = next((v for level in levels if isinstance(v := level.get("quantization_config"), Mapping)), None)
    if settings is None:
        return {}
    words = [short(settings.get("quant_method", "no method named")).strip("'")]
    for name, what in (("bits", "{} bits"), ("format", "{}"), ("group_size", "groups of {}")):
        value = settings.get(name)
        if isinstance(value, int | str) and not isinstance(value, bool) and value != -1:
            words.append(what.format(str(value)[:40]))
    return {"quantization": ", ".join(words)}


def _fields(config: Mapping[str, Any], metadata: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """Fields of the text model, and the name of the architecture."""
    nested = config.get("text_config")
    merged = {**config, **nested} if isinstance(nested, Mapping) else dict(config)
    names = config.get("architectures")
    if isinstance(names, list) and names:
        return merged, str(names[0])[:80]
    if config:
        return merged, str(config.get("model_type") or config.get("model", ""))[:80]
    architecture = str(metadata.get("general.architecture", ""))[:80]
    prefix = f"{architecture}."
    own = {key.removeprefix(prefix): value for key, value in metadata.items() if key.startswith(prefix)}
    return own or dict(metadata), architecture


def _find(fields: Mapping[str, Any], names: tuple[str, ...]) -> int | None:
    values = (fields.get(name) for name in names)
    return next((value for value in values if type(value) is int and value > 0), None)
