"""y[t, :] = weight[ids[t], :]: one row of a table per token.

Cost: T*E values read and written; nothing else of the table is touched.
"""

from __future__ import annotations

import numpy as np

from pelton.plan.op_spec import Case, Cost, OpSpec, Sizes, normal
from pelton.plan.plan import Node, Value, WeightRef
from pelton.plan.recorder import Recorder


def embedding(p: Recorder, ids_T: Value, weight_VE: WeightRef) -> Value:
    """Rows of `weight_VE` chosen by `ids_T`: [T, E]. Ids outside the table are the caller's error."""
    y_TE = p.value((*ids_T.shape, weight_VE.shape[1]))
    p.record("embedding", (ids_T,), (weight_VE,), (y_TE,))
    return y_TE


def sample(rng: np.random.Generator) -> tuple[Case, ...]:
    """First, last and repeated rows of tables with odd and with block-sized rows."""
    ids_T = np.array([0, 18, 3, 3, 18], np.int32)
    return tuple(
        Case(name=f"V=19 E={size}", inputs=(ids_T,), weights=(normal(rng, 19, size),)) for size in (5, 64, 256)
    )


def cost(node: Node, sizes: Sizes) -> Cost:
    """Rows read as they are stored, and written dense."""
    (weight_VE,) = node.weights
    assert weight_VE is not None
    row_bytes = sizes.weight_bytes[weight_VE.name] // weight_VE.shape[0]
    return Cost(
        sizes.num_elements(node.outputs[0]) * sizes.value_bytes + sizes.num_elements(node.inputs[0]) * row_bytes
    )


SPEC = OpSpec(
    name="embedding",
    record=embedding,
    tolerance={"float32": 1e-6, "bfloat16": 1e-2, "int8": 1e-2},
    sample=sample,
    cost=cost,
    matrix=0,
)
