"""Linears of bitsandbytes: 4-bit codes with a scale for a run of numbers, or 8-bit integers with a scale for a channel.

  4 bits  weight [ceil(N * K / 2), 1] bytes, the first number in the high half; runs of `blocksize` numbers, which cross
          rows, share weight.absmax; a code is worth weight.quant_map[code]. Where weight.absmax are bytes they are
          codes too: nested_quant_map[code] * nested_absmax of a run of them + nested_offset. The JSON in
          weight.quant_state.bitsandbytes__nf4 (or __fp4) says the shape and the lengths of runs
  8 bits  weight [N, K] signed bytes, SCB [N]: W = weight * SCB / 127; weight_format, where it is, says 0: rows

Rows become float32: each product is rounded once. Without a quant_state the codes mean nothing, and are refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pelton.checkpoint.fields import Fields
from pelton.checkpoint.hf.quantized.arrays import Bytes, array_of, bytes_of
from pelton.checkpoint.hf.quantized.settings import Quantization
from pelton.checkpoint.placed_tensor import PlacedTensor
from pelton.checkpoint.strict_json import parse_object
from pelton.errors import CheckpointError

MARK = "weight"
_STATES = ("weight.quant_state.bitsandbytes__nf4", "weight.quant_state.bitsandbytes__fp4")
REQUIRED_4 = {"weight": ("U8",), "weight.absmax": ("F32", "U8"), "weight.quant_map": ("F32",)}
OPTIONAL_4 = {"weight.nested_absmax": ("F32",), "weight.nested_quant_map": ("F32",), **dict.fromkeys(_STATES, ("U8",))}
REQUIRED_8 = {"weight": ("I8",), "SCB": ("F32",)}
OPTIONAL_8 = {"weight_format": ("U8",)}

Parts = Mapping[str, PlacedTensor]
Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Codes:
    """A matrix of codes, its runs and what they are worth."""

    stored: Bytes  # [ceil(N * K / 2)]
    shape: tuple[int, int]
    scales: Floats  # one for each run
    values: Floats  # [16]
    run: int


def find_shape_4(parts: Parts, quantization: Quantization) -> tuple[int, int]:
    """[N, K], as the quant_state says; it must fill the bytes."""
    shape = _read_state(parts).numbers("shape")
    where = parts["weight"].info
    if shape is None or len(shape) != 2 or min(shape) < 1 or any(each != int(each) for each in shape):
        raise CheckpointError(f"{where.name}: its quant_state has the shape {shape}, expected [rows, columns].")
    found = int(shape[0]), int(shape[1])
    if -(-found[0] * found[1] // 2) != where.nbytes:
        raise CheckpointError(f"{where.name}: has {where.nbytes} bytes, which are not the codes of {list(found)}.")
    return found


def find_shape_8(parts: Parts, quantization: Quantization) -> tuple[int, int]:
    """[N, K]."""
    num_channels, row_size = parts["weight"].info.shape
    return num_channels, row_size


def _read_state(parts: Parts) -> Fields:
    present = [name for name in _STATES if name in parts]
    where = parts["weight"].info.name
    if len(present) != 1:
        raise CheckpointError(f"{where}: has {len(present)} quant_states, expected one; without it codes mean nothing.")
    return Fields(f"{where}: quant_state", parse_object(bytes_of(parts[present[0]]).tobytes(), f"{where}: quant_state"))


def read_codes(parts: Parts, shape: tuple[int, int]) -> Codes:
    """Everything but the numbers. Raises CheckpointError for scales of another length, or that are none."""
    state, where = _read_state(parts), parts["weight"].info.name
    run = state.integer("blocksize")
    values: Floats = array_of(parts["weight.quant_map"]).reshape(-1)
    num_runs = -(-shape[0] * shape[1] // run)
    scales = array_of(parts["weight.absmax"]).reshape(-1)
    if values.size != 16 or scales.size != num_runs:
        raise CheckpointError(
            f"{where}: has {values.size} values and {scales.size} scales; 16 and {num_runs} are expected for runs of "
            f"{run}."
        )
    if scales.dtype == np.uint8:
        scales = _read_nested(parts, state, scales, where)
    if not (np.isfinite(scales).all() and np.isfinite(values).all()):
        raise CheckpointError(f"{where}: has a scale that is not finite. It is damaged; fetch it again.")
    return Codes(
        bytes_of(parts["weight"]).reshape(-1), shape, scales.astype(np.float32), values.astype(np.float32), run
    )


def _read_nested(parts: Parts, state: Fields, codes: Bytes, where: str) -> Floats:
    """Scales that are codes themselves."""
    missing = [name for name in ("weight.nested_absmax", "weight.nested_quant_map") if name not in parts]
    if missing:
        raise CheckpointError(f"{where}: its scales are codes, and {missing[0]} is not there.")
    outer = array_of(parts["weight.nested_absmax"]).reshape(-1).astype(np.float32)
    worth = array_of(parts["weight.nested_quant_map"]).reshape(-1).astype(np.float32)
    run = state.integer("nested_blocksize")
    if worth.size != 256 or outer.size != -(-codes.size // run):
        raise CheckpointError(
            f"{where}: has {worth.size} nested values and {outer.size} nested scales for {codes.size}."
        )
    scales: Floats = worth[codes] * np.repeat(outer, run)[: codes.size] + np.float32(state.number("nested_offset"))
    return scales


def make_rows_4(codes: Codes) -> Bytes:
    """[N, 4 * K] bytes of float32, a fresh array."""
    count = codes.shape[0] * codes.shape[1]
    numbers = np.empty(2 * codes.stored.size, np.float32)
    numbers[0::2] = codes.values[codes.stored >> 4]
    numbers[1::2] = codes.values[codes.stored & 15]
    numbers = numbers[:count]
    whole = count // codes.run * codes.run
    numbers[:whole].reshape(-1, codes.run)[...] *= codes.scales[: whole // codes.run, None]
    numbers[whole:] *= codes.scales[-1]
    return numbers.reshape(codes.shape).view(np.uint8)


def read_integers(parts: Parts, shape: tuple[int, int]) -> tuple[npt.NDArray[Any], Floats]:
    """[N, K] integers as mapped, and their scales [N]. Raises CheckpointError for another layout."""
    where = parts["weight"].info.name
    if "weight_format" in parts and bytes_of(parts["weight_format"]).reshape(-1).tolist() != [0]:
        raise CheckpointError(f"{where}: its weight_format is not rows, which cannot be read. Save the model again.")
    scales: Floats = array_of(parts["SCB"]).reshape(-1)
    if scales.size != shape[0] or not np.isfinite(scales).all():
        raise CheckpointError(f"{where}: SCB has {scales.size} scales, {shape[0]} finite ones are expected.")
    return array_of(parts["weight"]), scales


def make_rows_8(integers: npt.NDArray[Any], scales: Floats) -> Bytes:
    """[N, 4 * K] bytes of float32, a fresh array."""
    exact = integers.astype(np.float64) * scales.astype(np.float64)[:, None] / 127
    return exact.astype(np.float32).view(np.uint8)
