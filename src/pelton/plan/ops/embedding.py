"""y[t, :] = weight[ids[t], :]: one row of a table per token.

Cost: T*E values read and written; nothing else of the table is touched.
"""

from __future__ import annotations

from pelton.plan.plan import Value, WeightRef
from pelton.plan.recorder import Recorder


def embedding(p: Recorder, ids_T: Value, weight_VE: WeightRef) -> Value:
    """Rows of `weight_VE` chosen by `ids_T`: [T, E]. Ids outside the table are the caller's error."""
    y_TE = p.value((*ids_T.shape, weight_VE.shape[1]))
    p.record("embedding", (ids_T,), (weight_VE,), (y_TE,))
    return y_TE
