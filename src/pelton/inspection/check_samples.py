"""A glance at the bytes of tensors: matrices of zeros, and layers or experts that are copies of one another.

A few hundred bytes of each of some hundreds of tensors are read, whatever the size of the model. What looks empty in
the sample is looked at in more places before it is told.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

import numpy as np

from pelton.checkpoint.contract import Checkpoint
from pelton.checkpoint.weight import Bytes
from pelton.errors import CheckpointError
from pelton.inspection.account import Account
from pelton.inspection.finding import Finding
from pelton.inspection.scan import listed

_SAMPLE_BYTES = 256
_MAX_SAMPLED = 400
_MANY_PLACES = 64
_MAX_TOLD = 8
_PER_LAYER = ("q_proj", "qkv_proj", "c_attn", "attn_q", "attn_qkv", "down_proj", "ffn_down", "c_proj")


def check_samples(checkpoint: Checkpoint, account: Account) -> list[Finding]:
    """What a glance shows. Quantized linears of several tensors are passed by: their rows would have to be made."""
    matrices = [name for name, place in account.used.items() if len(checkpoint.tensors[name].shape) > 1]
    sampled = matrices[:: max(1, -(-len(matrices) // _MAX_SAMPLED))]
    empty = list(islice((name for name in sampled if _is_empty(checkpoint, name)), _MAX_TOLD))
    findings = (
        [Finding("weights.all-zero", f"{listed(empty)} {_hold(empty)} zeros, wherever looked at.")] if empty else []
    )
    for group, what in ((_layers(matrices, account), "layers"), (_experts(matrices, account), "experts")):
        same = find_copies(checkpoint, [name for name in group if name not in empty])
        if same:
            pairs = [f"{one} = {other}" for one, other in same]
            findings.append(Finding("weights.copies", f"{what}: {listed(pairs)}."))
    return findings


def find_copies(checkpoint: Checkpoint, names: Iterable[str]) -> list[tuple[str, str]]:
    """Tensors of one shape whose sampled bytes are those of an earlier one, beside it: the first few."""
    first: dict[tuple[object, ...], str] = {}
    copies = []
    for name in names:
        rows = _mapped(checkpoint, name)
        if rows is None:
            continue
        info = checkpoint.tensors[name]
        key = (info.shape, info.scheme, sample(rows).tobytes())
        if key not in first:
            first[key] = name
        elif _is_same(rows, _mapped(checkpoint, first[key])):
            copies.append((name, first[key]))
        if len(copies) == _MAX_TOLD:
            break
    return copies


def sample(rows: Bytes) -> Bytes:
    """A few bytes from the middle: one place, for each costs a page of the disk, and more that are read ahead."""
    return rows[len(rows) // 2, :_SAMPLE_BYTES]


def _is_same(rows: Bytes, others: Bytes | None) -> bool:
    """Whether two tensors of one shape are equal in many places."""
    step = max(1, len(rows) // _MANY_PLACES)
    return others is not None and np.array_equal(rows[::step, :_SAMPLE_BYTES], others[::step, :_SAMPLE_BYTES])


def _mapped(checkpoint: Checkpoint, name: str) -> Bytes | None:
    try:
        stored = checkpoint.read(name).stored
    except CheckpointError:
        return None
    return stored if isinstance(stored, np.ndarray) and stored.size else None


def _is_empty(checkpoint: Checkpoint, name: str) -> bool:
    rows = _mapped(checkpoint, name)
    if rows is None or sample(rows).any():
        return False
    step = max(1, len(rows) // _MANY_PLACES)
    return not rows[::step, :_SAMPLE_BYTES].any()


def _layers(matrices: Sequence[str], account: Account) -> list[str]:
    """One or two matrices of each layer."""
    return [
        name for name in matrices if any(f".{part}." in name for part in _PER_LAYER) and not _is_expert(name, account)
    ][:_MAX_SAMPLED]


def _experts(matrices: Sequence[str], account: Account) -> list[str]:
    """The experts of the first layer that has some."""
    names = [name for name in matrices if _is_expert(name, account)]
    first = account.used[names[0]].layer if names else None
    return [name for name in names if account.used[name].layer == first][:_MAX_SAMPLED]


def _is_expert(name: str, account: Account) -> bool:
    return account.used[name].expert is not None


def _hold(names: Sequence[str]) -> str:
    return "holds" if len(names) == 1 else "hold"
