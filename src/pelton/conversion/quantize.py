"""Matrices of a GGUF that is about to be written, as blocks of a few bits: which of them, and as what.

Vectors, routers and positions stay float32. With four bits the embedding and the head take Q6_K, since every token goes
through them. Rows that do not fill blocks of 256 take Q8_0, and those that fill no block stay as they are: both are
said in the ledger. Weights that are blocks already are refused: rounding twice is worse than rounding once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import numpy as np

from pelton.checkpoint.dequantize import dequantize_rows
from pelton.checkpoint.outgoing import Outgoing
from pelton.checkpoint.quantize_blocks import MADE, quantize_rows
from pelton.checkpoint.scheme import DENSE, get_scheme, row_bytes
from pelton.checkpoint.weight import Bytes
from pelton.conversion.dense import chunks
from pelton.conversion.result import Loss, Output, TensorRecord
from pelton.errors import CheckpointError

SCHEMES: Final = tuple(MADE)
_FINER: Final = {"Q4_0": "Q6_K", "Q4_K": "Q6_K"}
_OUTER: Final = ("token_embd.weight", "output.weight")
_FALLBACK: Final = "Q8_0"


def quantize_output(output: Output, scheme: str) -> Output:
    """`output` with its matrices in `scheme`. Raises CheckpointError if some are blocks already."""
    blocks = [tensor.name for tensor in output.tensors if tensor.scheme not in DENSE]
    if blocks:
        raise CheckpointError(
            f"{blocks[0]} is quantized already, and would be rounded a second time. Quantize the original weights."
        )
    records = {record.target: record for record in output.records}
    tensors, losses = [], list(output.losses)
    for tensor in output.tensors:
        target = choose_scheme(tensor, scheme)
        tensors.append(
            tensor if target == tensor.scheme else replace(tensor, scheme=target, make=_maker(tensor, target))
        )
        if target != tensor.scheme:
            record = records[tensor.name]
            records[tensor.name] = replace(record, steps=(*record.steps, f"as {target}"), scheme=target)
            losses.append(Loss(f"tensor {tensor.name}", f"{tensor.scheme} is rounded to {target}", True))
    metadata = {**output.metadata, "general.quantization_version": 2}
    metadata.pop("general.file_type", None)
    ordered: list[TensorRecord] = [records[record.target] for record in output.records]
    return replace(output, tensors=tensors, records=ordered, losses=losses, metadata=metadata)


def choose_scheme(tensor: Outgoing, scheme: str) -> str:
    """What a tensor is written as. One that is float32 by rule (see `to_gguf`) is not a matrix of weights."""
    is_matrix = len(tensor.shape) >= 2 and tensor.name.endswith(".weight")
    if not is_matrix or "norm" in tensor.name or "ffn_gate_inp" in tensor.name or "position" in tensor.name:
        return tensor.scheme
    wanted = _FINER.get(scheme, scheme) if tensor.name in _OUTER else scheme
    for each in (wanted, _FALLBACK):
        if tensor.shape[-1] % get_scheme(each).block_size == 0:
            return each
    return tensor.scheme


def _maker(tensor: Outgoing, scheme: str) -> Callable[[], Bytes]:
    def make() -> Bytes:
        rows = tensor.make()
        made = np.empty((len(rows), row_bytes(scheme, tensor.shape[-1])), np.uint8)
        for begin, end in chunks(len(rows), 4 * tensor.shape[-1]):
            made[begin:end] = quantize_rows(scheme, dequantize_rows(tensor.scheme, rows[begin:end]))
        return made

    return make
