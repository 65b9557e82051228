"""The numbers inside tensors: what every one holds (a pass over all bytes), and what a few norms hold (a glance).

A pass keeps at most a few MiB of float32 at a time, whatever the size of a tensor; those whose rows have to be put in
order first (GPTQ and its like) cost one matrix more. Counts are exact, the mean is of float64 sums.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pelton.checkpoint.contract import Checkpoint, TensorInfo
from pelton.checkpoint.dequantize import dequantize
from pelton.checkpoint.scan import scan_rows
from pelton.checkpoint.scheme import READABLE
from pelton.checkpoint.weight import Tensor
from pelton.errors import CheckpointError
from pelton.inspection.account import Account
from pelton.inspection.finding import Finding

_NORMS_SAMPLED = 48
_INPUT_NORMS = ("norm", "attn_norm", "mlp_norm")  # those before a matrix: their weights are positive in trained models


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """What is in a tensor. Minimum, maximum and mean are of its finite numbers; NaN where there is none."""

    num_not_finite: int
    num_zero: int
    minimum: float
    maximum: float
    mean: float


def measure(tensor: Tensor, on_bytes: Callable[[int], None] = lambda _: None) -> Numbers:
    """A pass over the tensor; `on_bytes` is told of the stored bytes that are done."""
    found = scan_rows(tensor.scheme, tensor.payload, on_bytes=on_bytes)
    return Numbers(
        num_not_finite=found.num_not_finite,
        num_zero=found.num_zero,
        minimum=found.minimum,
        maximum=found.maximum,
        mean=found.mean,
    )


def scan(
    tensors: Mapping[str, TensorInfo],
    read: Callable[[str], Tensor],
    on_bytes: Callable[[int], None] = lambda _: None,
    on_error: Callable[[str], None] = lambda _: None,
) -> dict[str, Numbers | None]:
    """The numbers of every tensor by name; None for those whose scheme has none here, or whose bytes are damaged.

    `on_error` is told why a tensor that should have numbers cannot be read.
    """
    found: dict[str, Numbers | None] = {}
    for name, info in tensors.items():
        try:
            found[name] = measure(read(name), on_bytes)
        except CheckpointError as error:
            if info.scheme in READABLE:
                on_error(str(error))
            found[name] = None
            on_bytes(info.nbytes)
    return found


def check_numbers(numbers: dict[str, Numbers | None], tensors: dict[str, TensorInfo]) -> list[Finding]:
    """What a pass over all tensors shows."""
    measured = {name: found for name, found in numbers.items() if found is not None}
    broken = [name for name, found in measured.items() if found.num_not_finite]
    empty = [
        name
        for name, found in measured.items()
        if math.isnan(found.mean) or (found.minimum == found.maximum == 0.0 and not name.endswith("bias"))
    ]
    findings = []
    if broken:
        count = sum(measured[name].num_not_finite for name in broken)
        findings.append(Finding("weights.not-finite", f"{count:,} numbers are not finite, in {listed(broken)}."))
    empty = [name for name in empty if math.prod(tensors[name].shape) and name not in broken]
    if empty:
        findings.append(Finding("weights.all-zero", f"{listed(empty)} {'holds' if len(empty) == 1 else 'hold'} zeros."))
    return findings


def check_norms(checkpoint: Checkpoint, account: Account) -> list[Finding]:
    """Whether the +1 that some families keep apart from their norm weights was added twice, or not at all.

    In trained models the weights of norms before a matrix are positive, and some of them are small. One added too
    often leaves none below one; one that is missing makes the small ones negative.
    """
    names = [name for name in account.norms() if account.used[name].to.rpartition(".")[2] in _INPUT_NORMS]
    sampled = names[:: max(1, -(-len(names) // _NORMS_SAMPLED))]
    values, keeps_apart = _effective(checkpoint, account, sampled)
    if not values.size:
        return []
    if not np.isfinite(values).all():
        return [Finding("weights.not-finite", f"Among the weights of {len(sampled)} norms are some.")]
    if not values.any():
        return [Finding("weights.all-zero", f"{len(sampled)} norms hold zeros.")]
    low, mean = float(values.min()), float(values.mean())
    seen = f"{len(sampled)} norms have weights of {mean:.2f} on average, the lowest {low:.2f}"
    if low > 0.98 and not (values == 1.0).all():
        return [Finding("weights.norm-doubled", f"{seen}: none is below one.")]
    is_negative = keeps_apart and low >= -1.01 and float((values < 0.0).mean()) > 1e-3
    if is_negative or abs(mean) < 0.02:
        return [Finding("weights.norm-undone", f"{seen}, {100 * float((values < 0.0).mean()):.1f} % below zero.")]
    return []


def _effective(checkpoint: Checkpoint, account: Account, names: Sequence[str]) -> tuple[npt.NDArray[np.float32], bool]:
    """What the norms multiply with, and whether their family stores the difference from one."""
    values = [np.zeros(0, dtype=np.float32)]
    keeps_apart = False
    for name in names:
        place = account.used[name]
        keeps_apart |= place.row.transform == "plus_one"
        added = np.float32(1.0 if place.transform == "plus_one" else 0.0)
        values.append(dequantize(checkpoint.read(name)).reshape(-1) + added)
    return np.concatenate(values), keeps_apart


def listed(names: Sequence[str], limit: int = 3) -> str:
    """The first names of a list, and how many more there are.

    >>> listed(["a", "b", "c", "d", "e"]), listed(["a", "b"])
    ('a, b, c and 2 more', 'a and b')
    """
    if len(names) > limit:
        return f"{', '.join(names[:limit])} and {len(names) - limit} more"
    return " and ".join(part for part in (", ".join(names[:-1]), names[-1]) if part)
