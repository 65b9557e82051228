"""A checkpoint as `model.onnx` with its weights beside it, in float32, for onnxruntime and whatever else reads ONNX.

Inputs and outputs are those of optimum: input_ids, attention_mask, position_ids, past_key_values.N.key and .value in;
logits, present.N.key and .value out. Weights are those of the plan (q, k and v in one), each once, in the order that
the graph reads them; a tied head reads the embedding. Memory is that of the largest weight.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import numpy as np

from pelton import __version__
from pelton.checkpoint.contract import Checkpoint
from pelton.checkpoint.dequantize import dequantize_rows
from pelton.checkpoint.weight import Weight
from pelton.conversion import onnx_proto as proto
from pelton.conversion.dense import chunks
from pelton.conversion.onnx_graph import GraphBuilder
from pelton.errors import CheckpointError
from pelton.loading.weights import load_weights
from pelton.models import find_model
from pelton.plan import Plan, Recorder, Weights

GRAPH: Final = "model.onnx"
DATA: Final = "model.onnx_data"
ALIGNMENT: Final = 4096  # so that a reader may map each weight
PARTS_KEY: Final = "pelton.parts"  # JSON: of which tensors, with how many rows, each weight was put together


def export_onnx(
    checkpoint: Checkpoint, directory: Path, *, on_bytes: Callable[[int], None] = lambda num_bytes: None
) -> None:
    """Write the two files into `directory`. Raises CheckpointError for what ONNX has no form of here."""
    spec = checkpoint.spec
    plan, weights = _record(checkpoint)
    builder = GraphBuilder(plan, head_dim=spec.head_dim, num_kv_heads=spec.num_kv_heads, num_layers=spec.num_layers)
    order = list(plan.weights())
    initializers, offset = [], 0
    for name in order:
        length = 4 * int(np.prod(weights[name].shape))
        initializers.append(proto.external(name, weights[name].shape, DATA, offset, length))
        offset += _pad(length)
    parts = {name: [[part.name, part.shape[0]] for part in weights[name].parts] for name in order}
    graph = builder.make_graph(initializers, spec.vocab_size)
    metadata = {PARTS_KEY: json.dumps(parts)}
    (directory / GRAPH).write_bytes(proto.model(graph, metadata, ("pelton", __version__)))
    with (directory / DATA).open("xb") as file:
        for name in order:
            written = 0
            for raw in _numbers(weights[name]):
                file.write(raw)
                written += len(raw)
                on_bytes(len(raw))
            file.write(bytes(_pad(written) - written))


def _record(checkpoint: Checkpoint) -> tuple[Plan, dict[str, Weight]]:
    spec = checkpoint.spec
    model = find_model(spec.architecture)
    weights = load_weights(checkpoint, model.WEIGHTS, spec).weights
    recorder = Recorder()
    shapes = {name: weight.shape for name, weight in weights.items()}
    return recorder.plan(model.record(recorder, spec, Weights(shapes), spec.max_position)), weights


def list_weights(checkpoint: Checkpoint) -> Iterator[tuple[str, tuple[str, ...], int]]:
    """Every weight as it lies in the file: its name, the tensors it was put together from, and where it begins."""
    plan, weights = _record(checkpoint)
    offset = 0
    for name in plan.weights():
        yield name, tuple(dict.fromkeys(part.name for part in weights[name].parts)), offset
        offset += _pad(4 * int(np.prod(weights[name].shape)))


def check_weights(checkpoint: Checkpoint, directory: Path) -> None:
    """Raise CheckpointError unless every weight lies where it should, with the source's numbers."""
    plan, weights = _record(checkpoint)
    offset = 0
    with (directory / DATA).open("rb") as file:
        for name in plan.weights():
            file.seek(offset)
            for raw in _numbers(weights[name]):
                if file.read(len(raw)) != raw:
                    raise CheckpointError(f"{directory / DATA}: {name} is not what was written. Is the disk sound?")
            offset += _pad(4 * int(np.prod(weights[name].shape)))


def count_bytes(checkpoint: Checkpoint) -> int:
    """About what the two files take: every weight once, in float32."""
    return sum(4 * int(np.prod(info.shape)) for info in checkpoint.tensors.values())


def _numbers(weight: Weight) -> Iterator[bytes]:
    """The weight's numbers as float32, some MiB at a time."""
    for part in weight.parts:
        rows = part.payload
        for begin, end in chunks(len(rows), 4 * (part.shape[-1] if part.shape else 1)):
            yield np.ascontiguousarray(dequantize_rows(part.scheme, rows[begin:end])).tobytes()


def _pad(length: int) -> int:
    return -(-length // ALIGNMENT) * ALIGNMENT
