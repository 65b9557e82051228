"""The rules about memory: weights first, then working memory, then keys and values.

Memory is promised before it is used. The pool takes a quarter of what the weights leave, unless a person asks for a
longer request or a larger pool; it is never larger than what all requests at full length could fill.
"""

from __future__ import annotations

from typing import Final

from pelton.config.decision import Decision, Draft
from pelton.errors import ConfigError

_POOL_SHARE: Final = 0.25
_FIXED_WORKING_BYTES: Final = 64 * 2**20  # interpreter, tokenizer, tables


def weights_fit(draft: Draft) -> None:
    """Refuse a model whose weights alone do not fit."""
    need, have = draft.model.weight_bytes, draft.hardware.available_memory_bytes
    if need > have:
        raise ConfigError(
            f"{draft.value('model') or draft.model.name}: the weights need {format_bytes(need)} of memory and "
            f"{format_bytes(have)} are free. Use a smaller or more strongly quantized model, or free memory."
        )


def length_fits_model(draft: Draft) -> None:
    """Refuse requests longer than the model was made for."""
    most = draft.model.max_position
    if not draft.is_open("max_model_len") and draft.value("max_model_len") > most:
        raise ConfigError(f"{draft.name('max_model_len')}: the model was made for {most} tokens. Lower it to {most}.")


def kv_cache_memory_bytes(draft: Draft) -> Decision | None:
    """A quarter of the free memory, more if one request needs it, at most what all requests can fill."""
    free = compute_free_bytes(draft)
    if not draft.is_open("kv_cache_memory_bytes"):
        if draft.value("kv_cache_memory_bytes") > free:
            raise ConfigError(
                f"{draft.asked.where('kv_cache_memory_bytes')}: {format_bytes(draft.value('kv_cache_memory_bytes'))} "
                f"are asked for and {_free_text(draft, free)}. Ask for less, or use a smaller model."
            )
        return None
    longest = draft.model.max_position if draft.is_open("max_model_len") else draft.value("max_model_len")
    one = _compute_blocks(draft, longest) * compute_block_bytes(draft)
    share, most = int(free * _POOL_SHARE), draft.value("max_num_requests") * one
    if most <= share:
        why = f"holds max_num_requests={draft.value('max_num_requests')} requests of {longest} tokens"
        return Decision("kv_cache_memory_bytes", most, why)
    if draft.is_open("max_model_len") or one <= share:
        whole = share - share % compute_block_bytes(draft)
        why = f"a quarter of the {format_bytes(free)} that weights and working memory leave free"
        return Decision("kv_cache_memory_bytes", whole, why)
    if one > free:
        raise ConfigError(
            f"Not enough memory for the KV cache: {_free_text(draft, free)}, and one request of "
            f"{draft.name('max_model_len')} needs {format_bytes(one)}. "
            f"Lower it to {_compute_tokens(draft, free)}, or use a smaller model."
        )
    return Decision("kv_cache_memory_bytes", one, f"one request of {draft.name('max_model_len')} needs it")


def max_model_len(draft: Draft) -> Decision | None:
    """What the model was made for, or what the pool holds if that is less."""
    pool_bytes = draft.value("kv_cache_memory_bytes")
    fits, most = _compute_tokens(draft, pool_bytes), draft.model.max_position
    if fits < 1:
        raise ConfigError(
            f"Not enough memory for the KV cache: one block of {draft.value('block_size')} tokens needs "
            f"{format_bytes(compute_block_bytes(draft))}, and {draft.name('kv_cache_memory_bytes')}. "
            f"Use a smaller model or --block-size, or free memory."
        )
    if draft.is_open("max_model_len"):
        if most <= fits:
            return Decision("max_model_len", most, "the context length the model was made for")
        why = f"all that {format_bytes(pool_bytes)} of KV memory hold; the model was made for {most}"
        return Decision("max_model_len", fits, why)
    if draft.value("max_model_len") > fits:
        raise ConfigError(
            f"{draft.name('max_model_len')} does not fit {draft.name('kv_cache_memory_bytes')}, which holds "
            f"{fits} tokens. Lower the first to {fits} or raise the second."
        )
    return None


def num_blocks(draft: Draft) -> Decision:
    """Whole blocks in the pool."""
    count = draft.value("kv_cache_memory_bytes") // compute_block_bytes(draft)
    per_block = format_bytes(compute_block_bytes(draft))
    return Decision("num_blocks", count, f"kv_cache_memory_bytes in blocks of {per_block}")


def compute_free_bytes(draft: Draft) -> int:
    """What is left for keys and values once weights and working memory are taken. At least 0."""
    model = draft.model
    tokens, requests = int(draft.value("max_num_batched_tokens")), int(draft.value("max_num_requests"))
    # Activations of a step are a few times the hidden size; 16 covers the gated MLPs of all served models.
    working = _FIXED_WORKING_BYTES + 4 * (tokens * model.hidden_size * 16 + requests * model.vocab_size)
    return max(0, draft.hardware.available_memory_bytes - model.weight_bytes - working)


def compute_block_bytes(draft: Draft) -> int:
    """Bytes of one KV block over all layers."""
    return int(draft.value("block_size")) * draft.model.kv_bytes_per_token


def format_bytes(count: int) -> str:
    """A size for people.

    >>> format_bytes(16 * 2**30), format_bytes(1536), format_bytes(1)
    ('16.0 GiB', '1.5 KiB', '1 B')
    """
    for power, unit in ((3, "GiB"), (2, "MiB"), (1, "KiB")):
        if count >= 1024**power:
            return f"{count / 1024**power:.1f} {unit}"
    return f"{count} B"


def _compute_blocks(draft: Draft, num_tokens: int) -> int:
    return -(-num_tokens // int(draft.value("block_size")))


def _compute_tokens(draft: Draft, num_bytes: int) -> int:
    return int(num_bytes // compute_block_bytes(draft) * draft.value("block_size"))


def _free_text(draft: Draft, free: int) -> str:
    return f"{format_bytes(free)} are free after {format_bytes(draft.model.weight_bytes)} of weights"
