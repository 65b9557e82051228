"""Merges of a SentencePiece BPE vocabulary, derived from its scores.

SentencePiece stores no merges: at each moment it joins the neighbours whose concatenation is the piece of the highest
score, the leftmost such pair first (Kudo & Richardson 2018, arXiv:1808.06226). Written as a list of merges this is
every way to cut a piece into two other pieces, ordered by the score of the whole. The ways to cut one piece have
equal rank there and neighbouring ranks here, so the two can differ only where two cuts of the same piece overlap in a
text; the tests count how often. A vocabulary of 262,144 pieces takes about 0.6 s.
"""

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Iterator[None]:
    """Keep the cyclic collector from walking a million young tuples again and again: halves the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def compute_merges(pieces: Sequence[str], scores: Sequence[float]) -> list[tuple[str, str]]:
    """All (left, right) pairs of pieces that join to a piece, the best score first.

    >>> compute_merges(["a", "b", "ab", "aba"], [0.0, 0.0, -1.0, -2.0])
    [('a', 'b'), ('ab', 'a')]
    """
    known = frozenset(pieces)
    order = sorted(range(len(pieces)), key=scores.__getitem__, reverse=True)
    with collector_paused():
        return [
            (piece[:cut], piece[cut:])
            for piece in map(pieces.__getitem__, order)
            for cut in range(1, len(piece))
            if piece[:cut] in known and piece[cut:] in known
        ]
