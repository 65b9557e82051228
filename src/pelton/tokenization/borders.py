"""The BOS and EOS that `add_special_tokens` puts around a text."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Library


def add_borders(library: Library, bos_id: int | None, eos_id: int | None) -> None:
    """Make `add_special_tokens` put these ids around a text, and nothing else."""
    from tokenizers import processors  # noqa: PLC0415

    before = [] if bos_id is None else [(library.id_to_token(bos_id), bos_id)]
    after = [] if eos_id is None else [(library.id_to_token(eos_id), eos_id)]
    first, last = [text for text, _ in before], [text for text, _ in after]
    # The library reads "$A" and "$B:1" as the texts; a token that spells one of them cannot be a border.
    library.post_processor = processors.TemplateProcessing(
        single=[*first, "$A", *last],
        pair=[*first, "$A", *last, *first, "$B:1", *last],
        special_tokens=list(dict(before + after).items()),
    )
