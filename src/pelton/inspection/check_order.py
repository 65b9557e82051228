"""Whether the vocabulary of a byte-pair tokenizer is in the order in which it was made: two entries that were exchanged
stand out, and nothing else of the model shows them.

Merges are in the order of training, and so are the ids of what they make, in every tokenizer that was trained as one.
Where whole ranges are out of order, the tokenizer was put together from several, and nothing is said.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pelton.inspection.finding import Finding
from pelton.inspection.scan import listed
from pelton.inspection.subject import Subject

_MOST_SHARE = 0.002  # of merges out of order, in a vocabulary of which single entries were moved
_FEWEST_MERGES = 100


def check_order(subject: Subject) -> list[Finding]:
    """A finding where some tokens are out of the order of their merges."""
    vocabulary, merges = _read(subject)
    made = list(_made(vocabulary, merges))
    if len(made) < _FEWEST_MERGES:
        return []
    moved = find_moved(made)
    if not moved or len(moved) > _MOST_SHARE * len(made) + 4:
        return []
    names = [f"{made[at][0]!r} ({made[at][1]})" for at in moved]
    return [Finding("tokenizer.order", f"Of {len(made):,} merges, {len(moved)} make such a token: {listed(names)}.")]


def find_moved(made: Sequence[tuple[str, int]]) -> list[int]:
    """Places whose id is smaller than one before them, or larger than all that come right after."""
    moved = []
    for at in range(1, len(made)):
        before, here = made[at - 1][1], made[at][1]
        if here < before:
            # Which of the two is in the wrong place: the one that does not fit what is around both.
            is_spike = at + 1 < len(made) and (at < 2 or made[at - 2][1] <= here) and here <= made[at + 1][1]
            moved.append(at - 1 if is_spike else at)
    return sorted(set(moved))


def _read(subject: Subject) -> tuple[Mapping[str, int], Iterable[Any]]:
    """Ids by text, and merges in order."""
    tokens, merges = subject.metadata.get("tokenizer.ggml.tokens"), subject.metadata.get("tokenizer.ggml.merges")
    if isinstance(tokens, Sequence) and isinstance(merges, Sequence):
        return {text: id_ for id_, text in enumerate(tokens)}, merges
    model = subject.pipeline.get("model")
    if not isinstance(model, Mapping) or model.get("type") not in (None, "BPE"):
        return {}, ()
    vocabulary, found = model.get("vocab"), model.get("merges")
    return (vocabulary, found) if isinstance(vocabulary, Mapping) and isinstance(found, list) else ({}, ())


def _made(vocabulary: Mapping[str, int], merges: Iterable[Any]) -> Iterator[tuple[str, int]]:
    """Text and id of what each merge makes, as far as it is in the vocabulary."""
    for merge in merges:
        parts = merge.split(" ") if isinstance(merge, str) else merge
        if isinstance(parts, list) and len(parts) == 2 and all(isinstance(part, str) for part in parts):
            text = "".join(parts)
            id_ = vocabulary.get(text)
            if type(id_) is int:
                yield text, id_
