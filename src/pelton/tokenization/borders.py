"""The BOS and EOS that `add_special_tokens` puts around a text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Library


def add_borders(library: Library, bos_id: int | None, eos_id: int | None) -> None:
    """Make `add_special_tokens` put these ids around a text, and nothing else."""
    from tokenizers import processors  # noqa: PLC0415

    first, last = _border(library, bos_id), _border(library, eos_id)
    names = [[border["id"]] if border else [] for border in (first, last)]
    library.post_processor = processors.TemplateProcessing(
        single=[*names[0], "$A", *names[1]],
        pair=[*names[0], "$A", *names[1], *names[0], "$B:1", *names[1]],
        special_tokens=list({border["id"]: border for border in (first, last) if border}.values()),
    )


def _border(library: Library, token_id: int | None) -> dict[str, Any] | None:
    """A token under its own text, or under a name where the library would read the text as something else."""
    if token_id is None:
        return None
    text = library.id_to_token(token_id)
    is_plain = text and ":" not in text and not text.startswith("$")
    return {"id": text if is_plain else f"token {token_id}", "ids": [token_id], "tokens": [text]}
