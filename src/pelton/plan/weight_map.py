"""Where a model's weights are: one row per tensor, with its name in each format and what is done to it.

A row names the plan weight and the tensor. Rows with the same plan name are stacked along their first axis in the
order they are listed (q, k, v -> qkv). "{i}" stands for the layer, "{x}" for the expert: those rows are stacked expert
by expert (gate 0, up 0, gate 1, ...). A checkpoint tensor that matches no row, or a required row that matches no
tensor, is an error: nothing is dropped in silence (`loading.weights` proves it).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from pelton.checkpoint.model_spec import LayerSpec, ModelSpec

# What is done to a tensor's rows or numbers on the way in. "plus_one" and "transpose" need dense float weights.
#   plus_one     w + 1, in float32: norms stored as the difference from one (Gemma)
#   transpose    [in, out] -> [out, in] (GPT-2's Conv1D)
#   experts      [X, rows, columns] -> X matrices, as if each were a tensor with "{x}" in its name; exact in any scheme
#   row          [n] -> [1, n]: a matrix of one row whose first axis the file leaves out
#   rope_rows_q / rope_rows_k   rows of each head from neighbouring pairs to half-split pairs (GGUF of Llama)
Transform = Literal["none", "plus_one", "transpose", "experts", "row", "rope_rows_q", "rope_rows_k"]
Shard = Literal["rows", "columns", "replicated"]
Condition = Callable[[ModelSpec], bool]
LayerCondition = Callable[[LayerSpec], bool]


def always(_: ModelSpec | LayerSpec) -> bool:
    """The condition of most rows."""
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One tensor: `to` is its plan name, `hf` and `gguf` its names in files (None: not stored there).

    `when` tells from the spec whether the tensor must be there, `in_layer` from its layer's. Where one says no, the
    tensor must be absent, unless `spare` names the reason why a stray copy is dropped (a tied head stored twice); it
    must then equal the tensor of the row `copies`.
    """

    to: str
    hf: str | None
    gguf: str | None
    transform: Transform = "none"
    gguf_transform: Transform = "none"
    shard: Shard = "replicated"
    when: Condition = always
    in_layer: LayerCondition = always
    spare: str | None = None
    copies: str | None = None


@dataclass(frozen=True, slots=True)
class WeightMap:
    """All rows of a model. `dropped` maps a tensor name pattern (with "{i}") to why it is not needed.

    `prefixes` lists other spellings of Hugging Face names: (prefix in the file, prefix in the rows). They are tried in
    order for a tensor whose own name is in no row. `alternatives` are rows that stand for all rows of the same plan
    name in the layers where the file has their tensor (all experts in one).
    """

    rows: tuple[Row, ...]
    dropped: tuple[tuple[str, str], ...] = ()
    prefixes: tuple[tuple[str, str], ...] = ()
    alternatives: tuple[Row, ...] = ()
