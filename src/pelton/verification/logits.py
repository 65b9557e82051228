"""L4: the same ids through both models, in float32: how far the distributions are apart at every position.

Prompts are random ids of several lengths: short, beyond the window, beyond the original context; each is read at once,
and the short one also token by token with the cache. If the sides differ, models cut off behind each layer are compared
to name the first layer that does. For a mixture, the experts that were chosen are counted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt

from pelton.backends.executable import Limits
from pelton.backends.reference import ReferenceBackend
from pelton.backends.reference.backend import Observer, ignore_node
from pelton.checkpoint.contract import Checkpoint
from pelton.checkpoint.model_spec import ModelSpec
from pelton.loading.weights import load_weights
from pelton.models import find_model
from pelton.plan import Node, Recorder, Weights
from pelton.runner.direct_step import logits_of
from pelton.runner.kv_pool import KvPool
from pelton.verification.finding import Finding

Floats = npt.NDArray[np.float64]

BLOCK = 16
SHORT = 24
MOST = 160  # positions of a prompt in `quick`; a full run goes as far as the model's own lengths ask
FULL_MOST = 1200
MANY = 128  # positions that are read where there are experts to be chosen
EXACT_KL = 1e-8
CHUNK = 64


@dataclass(slots=True)
class LogitsRecord:
    """KL(target || source) in nats by prompt and position; `layers` are KLs of models cut off behind each layer."""

    prompts: dict[str, list[float]] = field(default_factory=dict)
    same_token: float = 1.0
    decode_kl: float = 0.0
    layers: list[float] = field(default_factory=list)
    num_experts: int = 0  # of all layers together
    num_experts_chosen: int = 0  # by at least one token

    @property
    def worst(self) -> float:
        """The largest KL of all."""
        return max((max(kls, default=0.0) for kls in self.prompts.values()), default=0.0)


class ChosenExperts:
    """Which experts at least one token was given to, by the node that chose."""

    def __init__(self) -> None:
        self._seen: dict[int, npt.NDArray[np.bool_]] = {}

    def add(self, node: Node, outputs: tuple[npt.NDArray[Any], ...]) -> None:
        """Take note of what a node of the plan gave, if it chooses experts."""
        if node.op == "route":
            chosen = (outputs[0] != 0).any(axis=0)
            self._seen[node.outputs[0].id] = self._seen.get(node.outputs[0].id, False) | chosen

    def count(self) -> tuple[int, int]:
        """All experts, and those that were chosen."""
        return sum(seen.size for seen in self._seen.values()), sum(int(seen.sum()) for seen in self._seen.values())


def estimate_bytes(*checkpoints: Checkpoint) -> int:
    """What the weights of all take as float32."""
    return sum(4 * math.prod(info.shape) for each in checkpoints for info in each.tensors.values())


def list_prompts(spec: ModelSpec, most: int) -> dict[str, list[int]]:
    """Ids by what they are for, no longer than `most`."""
    draw = Random(0)
    lengths = {"short": SHORT}
    windows = {layer.window for layer in spec.layers if layer.window is not None}
    if windows:
        lengths["beyond the window"] = min(windows) + 9
    originals = {
        layer.rope.scaling.original_max_position
        for layer in spec.layers
        if layer.rope is not None and layer.rope.scaling is not None
    } - {0}
    if originals:
        lengths["beyond the original context"] = min(originals) + 9
    if any(layer.has_experts for layer in spec.layers):
        lengths["many experts"] = MANY
    fits = {name: length for name, length in lengths.items() if length <= min(most, spec.max_position)}
    return {name: [draw.randrange(spec.vocab_size) for _ in range(length)] for name, length in fits.items()}


def compare_logits(
    ours: Checkpoint, theirs: Checkpoint, *, most: int, budget: float, on_step: Callable[[int], None]
) -> tuple[LogitsRecord, list[Finding]]:
    """`budget`: nats that the mean over positions may reach if the tensors are not the same numbers."""
    record = LogitsRecord()
    spec = ours.spec
    prompts = list_prompts(spec, most)
    length = max(map(len, prompts.values()))
    chosen = ChosenExperts()
    a, b = _load(ours, length, on_node=chosen.add), _load(theirs, length)
    same = total = 0
    for name, ids in prompts.items():
        expected, actual = a(ids, CHUNK), b(ids, CHUNK)
        record.prompts[name] = _kl(actual, expected).tolist()
        same += int((actual.argmax(-1) == expected.argmax(-1)).sum())
        total += len(ids)
        on_step(1)
    record.same_token = same / total
    record.num_experts, record.num_experts_chosen = chosen.count()
    short = prompts["short"]
    record.decode_kl = float(_kl(b(short, 1), b(short, CHUNK)).max())
    findings = list(_judge(record, budget))
    if record.worst > EXACT_KL:
        record.layers = list(_by_layer(ours, theirs, short))
        findings += _name_layer(record)
    missing = {"beyond the window", "beyond the original context"} - prompts.keys()
    told = [name for name in sorted(missing) if name in list_prompts(spec, spec.max_position)]
    findings += [
        Finding(f"L4.LENGTH:{name}", f"{name} was not read: longer than {most} tokens", "note") for name in told
    ]
    return record, findings


def _judge(record: LogitsRecord, budget: float) -> Iterator[Finding]:
    for name, kls in record.prompts.items():
        mean = sum(kls) / len(kls)
        if not np.isfinite(mean):
            yield Finding(f"L4.LOGITS:{name}", f"{name}: logits are no numbers")
        elif mean > budget:
            yield Finding(
                f"L4.LOGITS:{name}",
                f"{name}: the distributions are {mean:.3g} nats apart on average and {max(kls):.3g} at most; "
                f"{budget:.3g} are allowed",
            )
    if not record.decode_kl <= 1e-6:
        yield Finding(
            "L4.DECODE", f"token by token the target says something else than at once: {record.decode_kl:.3g} nats"
        )

    if record.num_experts_chosen < record.num_experts:
        told = f"{record.num_experts_chosen} of {record.num_experts} experts computed something for the prompts"
        yield Finding("L4.EXPERTS", f"{told}; the tensors of the others were compared at L2 alone", "note")


def _name_layer(record: LogitsRecord) -> Iterator[Finding]:
    """The first layer at which the difference jumps."""
    before = 1e-12
    for layer, kl in enumerate(record.layers):
        if kl > EXACT_KL and kl > 10 * before:
            yield Finding(
                f"L4.LAYER:{layer}", f"the difference begins in layer {layer}: {kl:.3g} nats behind it", "note"
            )
            return
        before = max(before, kl)


def _kl(actual: Floats, expected: Floats) -> Floats:
    a, e = _log_softmax(actual), _log_softmax(expected)
    kls: Floats = np.maximum((np.exp(a) * (a - e)).sum(-1), 0.0)
    return kls


def _log_softmax(logits: Floats) -> Floats:
    x = logits.astype(np.float64)
    x -= x.max(-1, keepdims=True)
    shifted: Floats = x - np.log(np.exp(x).sum(-1, keepdims=True))
    return shifted


def _load(
    checkpoint: Checkpoint, length: int, num_layers: int | None = None, *, on_node: Observer = ignore_node
) -> Callable[[list[int], int], Floats]:
    """Logits of ids, so many at a time, of the model or of its first layers."""
    spec = checkpoint.spec
    loaded = load_weights(checkpoint, find_model(spec.architecture).WEIGHTS, spec).weights
    if num_layers is not None:
        spec = replace(spec, layers=spec.layers[:num_layers])
        loaded = {name: weight for name, weight in loaded.items() if _is_below(name, num_layers)}
    recorder = Recorder()
    shapes = {name: weight.shape for name, weight in loaded.items()}
    plan = recorder.plan(find_model(spec.architecture).record(recorder, spec, Weights(shapes), length))
    blocks = -(-length // BLOCK)
    limits = Limits(
        max_num_batched_tokens=CHUNK,
        max_num_requests=1,
        max_num_logits_rows=CHUNK,
        block_size=BLOCK,
        max_blocks_per_request=blocks,
        num_threads=2,
    )
    executable = ReferenceBackend("float32", on_node=on_node).compile(plan, loaded, limits)
    pool = KvPool(blocks, executable.kv_bytes_per_block)
    executable.bind_kv(pool.memory, blocks)

    def read(ids: list[int], chunk: int) -> Floats:
        logits = logits_of(executable, ids, list(range(blocks)), chunk=chunk, max_blocks=blocks)
        return logits.astype(np.float64)

    return read


def _is_below(name: str, num_layers: int) -> bool:
    parts = name.split(".")
    return parts[0] != "layers" or int(parts[1]) < num_layers


def _by_layer(ours: Checkpoint, theirs: Checkpoint, ids: list[int]) -> Iterator[float]:
    for layer in range(ours.spec.num_layers):
        a, b = (_load(checkpoint, len(ids), layer + 1)(ids, CHUNK) for checkpoint in (ours, theirs))
        yield float(_kl(b, a).max())
