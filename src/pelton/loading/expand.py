"""Weights in schemes that no kernel knows become weights in schemes that kernels know, with the same numbers.

The plan, the backends and the cache of packed weights see the scheme they compute with. What was done is logged once
for each scheme, with how much larger the weights become.
"""

from __future__ import annotations

from collections.abc import Iterable

from pelton.checkpoint.contract import TensorInfo
from pelton.checkpoint.recode import TARGETS
from pelton.checkpoint.scheme import EXPANDED, get_scheme
from pelton.observability.log import Log

log = Log("loading")


def log_expanded(tensors: Iterable[TensorInfo]) -> None:
    """One line for each scheme among `tensors` that is computed with in another form."""
    counts: dict[str, int] = {}
    sizes: dict[str, int] = {}
    for info in tensors:
        if info.scheme in EXPANDED:
            counts[info.scheme] = counts.get(info.scheme, 0) + 1
            sizes[info.scheme] = sizes.get(info.scheme, 0) + info.nbytes
    for scheme, count in sorted(counts.items()):
        becomes = TARGETS[scheme][0]
        log.info(
            "weights are held in another form with the same numbers: no kernel computes with the stored one",
            scheme=scheme,
            becomes=becomes,
            tensors=count,
            stored_bytes=sizes[scheme],
            times_larger=round(bits_per_element(becomes) / bits_per_element(scheme), 2),
        )


def bits_per_element(scheme: str) -> float:
    """What one number takes, scales included.

    >>> bits_per_element("Q4_0")
    4.5
    """
    known = get_scheme(scheme)
    return 8 * known.block_bytes / known.block_size
