"""How true a backend is to the float32 reference on the same file: what its quantized activations and tiles cost.

Both read the same token ids, teacher-forced, in windows that start afresh. At every position the two distributions are
compared: whether they choose the same token, and KL(backend || reference) in nats, summed in float64.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

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


def compare_logits(actual_TV: Float32, expected_TV: Float32) -> tuple[npt.NDArray[np.bool_], Float64]:
    """Per position: whether the most likely token is the same, and KL(actual || expected) in nats."""
    actual, expected = log_softmax(actual_TV), log_softmax(expected_TV)
    kl_T = (np.exp(actual) * (actual - expected)).sum(-1)
    return actual_TV.argmax(-1) == expected_TV.argmax(-1), kl_T


def log_softmax(logits_TV: Float32) -> Float64:
    """Logarithms of the probabilities, in float64."""
    x = logits_TV.astype(np.float64)
    x -= x.max(-1, keepdims=True)
    shifted: Float64 = x - np.log(np.exp(x).sum(-1, keepdims=True))
    return shifted


def measure_fidelity(
    actual: LogitsReader,
    expected: LogitsReader,
    token_ids: list[int],
    *,
    window: int,
    prefix: list[int],
    progress: Callable[[int], None] = lambda _: None,
) -> Fidelity:
    """Compare two readers of the same model over `token_ids`, in windows of at most `window` positions.

    Every window begins with `prefix`, the tokens that the model expects before a text; `progress` hears positions done.
    """
    same: list[npt.NDArray[np.bool_]] = []
    kl: list[Float64] = []
    done = 0
    for ids in windows(token_ids, window, prefix):
        same_T, kl_T = compare_logits(actual(ids), expected(ids))
        same.append(same_T)
        kl.append(kl_T)
        done += len(ids)
        progress(done)
    kl_all = np.concatenate(kl)
    return Fidelity(done, float(np.concatenate(same).mean()), float(kl_all.mean()), float(kl_all.max()))


def windows(token_ids: list[int], size: int, prefix: list[int]) -> Iterator[list[int]]:
    """`token_ids` cut into pieces that, with `prefix` before them, are `size` long; the last may be shorter.

    >>> list(windows([1, 2, 3], 3, [0]))
    [[0, 1, 2], [0, 3]]
    """
    step = size - len(prefix)
    for start in range(0, len(token_ids), step):
        yield prefix + token_ids[start : start + step]
