"""How true engines are to the float32 reference on the same file: what quantized activations and tiles cost.

All read the same token ids, teacher-forced, in windows that start afresh. At every position the two distributions are
compared: whether they choose the same token, KL(engine || reference) in nats, and how likely each finds the token that
follows (perplexity). Logits are compared piece by piece, in float64, and none are kept: the memory that this takes is
that of one piece, whatever the vocabulary and the text.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import final

import numpy as np
import numpy.typing as npt

from pelton.runner.direct_step import LogitsReader

Float32 = npt.NDArray[np.float32]
Float64 = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Fidelity:
    """Agreement over all positions. KL in nats."""

    num_positions: int
    same_token: float  # share of positions at which both choose the same token
    mean_kl: float
    max_kl: float
    perplexity: float  # of the text; 1 if nothing in it could be predicted
    reference_perplexity: float


@dataclass(slots=True)
class Surprise:
    """Sum and count of the negative logarithms of what a distribution gave to the tokens that came."""

    total_nats: float = 0.0
    num_tokens: int = 0

    def add(self, log_TV: Float64, next_ids: list[int]) -> None:
        """Take in rows; the last row has no next token at the end of a window, so there may be one id less."""
        self.total_nats -= float(log_TV[np.arange(len(next_ids)), next_ids].sum())
        self.num_tokens += len(next_ids)

    @property
    def perplexity(self) -> float:
        return math.exp(self.total_nats / max(self.num_tokens, 1))


@final
class Agreement:
    """One engine's agreement with the reference, as far as they have been compared."""

    def __init__(self) -> None:
        self._same: list[npt.NDArray[np.bool_]] = []
        self._kl: list[Float64] = []
        self._surprise = Surprise()

    def add(self, actual_TV: Float64, expected_TV: Float64, next_ids: list[int]) -> None:
        """Take in rows of logarithms of probabilities, and the tokens that follow them."""
        same_T, kl_T = compare_rows(actual_TV, expected_TV)
        self._same.append(same_T)
        self._kl.append(kl_T)
        self._surprise.add(actual_TV, next_ids)

    def sum_up(self, reference: Surprise) -> Fidelity:
        """What has been found over all rows."""
        kl_T, same_T = np.concatenate(self._kl), np.concatenate(self._same)
        return Fidelity(
            num_positions=len(kl_T),
            same_token=float(same_T.mean()),
            mean_kl=float(kl_T.mean()),
            max_kl=float(kl_T.max()),
            perplexity=self._surprise.perplexity,
            reference_perplexity=reference.perplexity,
        )


def compare_rows(actual_TV: Float64, expected_TV: Float64) -> tuple[npt.NDArray[np.bool_], Float64]:
    """Per row of log-probabilities: whether the most likely token is the same, and KL(actual || expected) in nats."""
    difference_TV = actual_TV - expected_TV
    difference_TV *= np.exp(actual_TV)
    return actual_TV.argmax(-1) == expected_TV.argmax(-1), difference_TV.sum(-1)


def log_softmax(logits_TV: Float32) -> Float64:
    """Logarithms of the probabilities, in float64."""
    x = logits_TV.astype(np.float64)
    x -= x.max(-1, keepdims=True)
    shifted: Float64 = x - np.log(np.exp(x).sum(-1, keepdims=True))
    return shifted


def measure_fidelity(
    actual: Mapping[str, LogitsReader],
    expected: LogitsReader,
    token_ids: list[int],
    *,
    window: int,
    prefix: list[int],
    on_position: Callable[[], None] = lambda: None,
) -> dict[str, Fidelity]:
    """Compare each reader in `actual` with `expected` over `token_ids`, in windows of at most `window` positions.

    Every window begins with `prefix`, the tokens that the model expects before a text; `on_position` is called for each
    position. All readers must give pieces of the same numbers of rows.
    """
    agreements = {name: Agreement() for name in actual}
    reference = Surprise()
    for ids in windows(token_ids, window, prefix):
        start = 0
        for expected_SV, *pieces in zip(expected(ids), *(reader(ids) for reader in actual.values()), strict=True):
            num_rows = len(expected_SV)
            next_ids = ids[start + 1 : start + num_rows + 1]
            expected_log_SV = log_softmax(expected_SV)
            reference.add(expected_log_SV, next_ids)
            for agreement, piece_SV in zip(agreements.values(), pieces, strict=True):
                agreement.add(log_softmax(piece_SV), expected_log_SV, next_ids)
            start += num_rows
            for _ in range(num_rows):
                on_position()
    return {name: agreement.sum_up(reference) for name, agreement in agreements.items()}


def windows(token_ids: list[int], size: int, prefix: list[int]) -> Iterator[list[int]]:
    """`token_ids` cut into pieces that, with `prefix` before them, are `size` long; the last may be shorter.

    >>> list(windows([1, 2, 3], 3, [0]))
    [[0, 1, 2], [0, 3]]
    """
    step = size - len(prefix)
    for start in range(0, len(token_ids), step):
        yield prefix + token_ids[start : start + step]
