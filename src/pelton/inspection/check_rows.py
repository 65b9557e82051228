"""Tokens that a model never learnt: their rows of the head are those of rows that no token has.

Training moves the row of a token that occurs, and leaves those that never do where they were, all in one place. A stop
id among them is one that the model does not write. Reads some dozens of rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt

from pelton.checkpoint.contract import Checkpoint
from pelton.checkpoint.dequantize import dequantize
from pelton.inspection.account import Account
from pelton.inspection.finding import Finding
from pelton.inspection.scan import listed

_SAME = 0.999  # rows of trained tokens: below 0.95, even those of one template
_NUM_OTHERS = 32


def check_rows(
    checkpoint: Checkpoint, account: Account, tokens: Mapping[int, str], special_ids: Iterable[int]
) -> list[Finding]:
    """Which of `tokens` have a row like that of a special token nobody uses, or of none at all."""
    names = account.names_of("lm_head") or account.names_of("embed")
    if not names or not tokens:
        return []
    table = checkpoint.read(names[0])
    if not isinstance(table.stored, np.ndarray):
        return []
    num_rows = table.shape[0]
    others = [id_ for id_ in (*sorted(special_ids, reverse=True), num_rows - 1) if id_ < num_rows and id_ not in tokens]

    def unit(id_: int) -> npt.NDArray[np.float32]:
        row: npt.NDArray[np.float32] = dequantize(table.rows(id_, id_ + 1, "a token"))[0]
        row /= np.float32(max(float(np.linalg.norm(row)), 1e-30))
        return row

    unused_RE = np.array([unit(id_) for id_ in others[-_NUM_OTHERS:]], dtype=np.float32)
    unlearnt = [
        f"{id_} {text!r}"
        for id_, text in tokens.items()
        if id_ < num_rows and (not (row := unit(id_)).any() or (len(unused_RE) and (unused_RE @ row).max() > _SAME))
    ]
    if not unlearnt:
        return []
    seen = "its row of the head is" if len(unlearnt) == 1 else "their rows of the head are"
    return [Finding("weights.unlearnt", f"{listed(unlearnt)}: {seen} that of tokens which never occur.")]
