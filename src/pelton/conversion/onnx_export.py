"""A checkpoint as `model.onnx` with its weights beside it, in float32, for onnxruntime and whatever else reads ONNX.

Inputs and outputs are those of optimum: input_ids, attention_mask, position_ids, past_key_values.N.key and .value in;
logits, present.N.key and .value out. Weights are those of the plan (q, k and v in one), each once, in the order that
the graph reads them; a tied head reads the embedding. Memory is that of the largest weight.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from pelton import __version__
from pelton.checkpoint.contract import Checkpoint
from pelton.checkpoint.dequantize import dequantize_rows
from pelton.checkpoint.onnx.weights import TENSORS_KEY
from pelton.checkpoint.weight import Weight
from pelton.conversion import onnx_proto as proto
from pelton.conversion.dense import chunks
from pelton.conversion.inverse import minus_one, shape_before
from pelton.conversion.onnx_graph import GraphBuilder
from pelton.errors import CheckpointError
from pelton.loading.weights import load_weights, match_tensors, places_of
from pelton.models import find_model
from pelton.plan import Plan, Recorder, Weights

GRAPH: Final = "model.onnx"
DATA: Final = "model.onnx_data"
ALIGNMENT: Final = 4096  # so that a reader may map each weight
DIFFERENCE: Final = ".minus_one"  # of a norm that Hugging Face stores as the difference from one: the graph adds it


def export_onnx(
    checkpoint: Checkpoint, directory: Path, *, on_bytes: Callable[[int], None] = lambda num_bytes: None
) -> None:
    """Write the two files into `directory`. Raises CheckpointError for what ONNX has no form of here."""
    spec = checkpoint.spec
    plan, weights = _record(checkpoint)
    named, differences = _name_tensors(checkpoint, weights)
    builder = GraphBuilder(
        plan,
        head_dim=spec.head_dim,
        num_kv_heads=spec.num_kv_heads,
        num_layers=spec.num_layers,
        one_less={name: name + DIFFERENCE for name in differences},
    )
    order = list(plan.weights())
    initializers, offset = [], 0
    for name in order:
        length = 4 * int(np.prod(weights[name].shape))
        stored = name + DIFFERENCE if name in differences else name
        initializers.append(proto.external(stored, weights[name].shape, DATA, offset, length))
        offset += _pad(length)
    graph = builder.make_graph(initializers, spec.vocab_size)
    metadata = {TENSORS_KEY: json.dumps(named)}
    (directory / GRAPH).write_bytes(proto.model(graph, metadata, ("pelton", __version__)))
    with (directory / DATA).open("xb") as file:
        for name in order:
            written = 0
            for raw in _numbers(differences.get(name, weights[name])):
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


def _name_tensors(
    checkpoint: Checkpoint, weights: Mapping[str, Weight]
) -> tuple[dict[str, list[Any]], dict[str, Weight]]:
    """Where each tensor of Hugging Face lies, for whoever reads the file back; and the norms that are stored less one.

    Of an HF source those are its own numbers; of a GGUF the differences, which are exact unless its norms were finer
    than any sum with one is.
    """
    spec = checkpoint.spec
    weight_map = find_model(spec.architecture).WEIGHTS
    match = match_tensors(checkpoint, weight_map, spec)
    if checkpoint.naming == "hf":
        targets = [(match.names[key], place) for key, place in match.places.items()]
    else:
        rows = (place for row in weight_map.rows for place in places_of(row, "hf", spec))
        targets = [(place.tensor, place) for place in rows if place.is_wanted(spec)]
    targets.sort(key=lambda target: target[1].expert or 0)  # stable, as they are stacked
    num_experts = 0 if spec.experts is None else spec.experts.num_experts
    used: dict[str, int] = {}
    begins: dict[str, int] = {}
    named: dict[str, list[Any]] = {}
    differences: dict[str, Weight] = {}
    for name, place in targets:
        count = num_experts if place.transform == "experts" else 1
        parts = weights[place.to].parts[used.get(place.to, 0) :][:count]
        shape = parts[0].shape
        begin = begins.get(place.to, 0)
        whole = (count, *shape) if place.transform == "experts" else shape_before(shape, place.transform)
        named[name] = [place.to, begin, list(whole), place.transform == "transpose"]
        if place.transform == "plus_one":
            named[name][0] = place.to + DIFFERENCE
            kept = checkpoint.read(name) if checkpoint.naming == "hf" else minus_one(parts[0])
            differences[place.to] = Weight(place.to, (kept,))
        used[place.to] = used.get(place.to, 0) + count
        begins[place.to] = begin + count * shape[0]
    return named, differences


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
    _, differences = _name_tensors(checkpoint, weights)
    offset = 0
    with (directory / DATA).open("rb") as file:
        for name in plan.weights():
            file.seek(offset)
            for raw in _numbers(differences.get(name, weights[name])):
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
