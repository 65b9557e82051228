"""Checkpoint + backend -> executable: find the model file, load its weights, record its plan, compile it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

from pelton.backends.executable import Backend, Executable, Limits
from pelton.checkpoint.contract import Checkpoint
from pelton.checkpoint.model_spec import ModelSpec
from pelton.loading.expand import log_expanded
from pelton.loading.shape_check import check_shapes
from pelton.loading.weights import load_weights
from pelton.models import find_model
from pelton.plan import Plan, Recorder, Weights


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedModel:
    """A model ready to run. `dropped` lists (tensor, reason) for each tensor that is not used."""

    executable: Executable
    spec: ModelSpec
    plan: Plan
    dropped: tuple[tuple[str, str], ...]


def load_model(checkpoint: Checkpoint, backend: Backend, limits: Limits, max_model_len: int) -> LoadedModel:
    """Load the model of `checkpoint` for contexts of up to `max_model_len` tokens.

    Raises CheckpointError if the file and our model file do not fit together, BackendError if `backend` refuses.
    """
    spec = checkpoint.spec
    model = find_model(spec.architecture)
    loaded = load_weights(checkpoint, model.WEIGHTS, spec)
    check_shapes(loaded.weights, spec)
    log_expanded(checkpoint.tensors.values())
    recorder = Recorder()
    shapes = {name: weight.shape for name, weight in loaded.weights.items()}
    recorded = recorder.plan(model.record(recorder, spec, Weights(shapes), max_model_len))
    unread = loaded.weights.keys() - recorded.weights().keys()
    assert not unread, f"model file {spec.architecture}: loads {sorted(unread)}, which its plan does not read"
    plan = reduce(lambda plan, rewrite: rewrite(plan), backend.passes, recorded)
    executable = backend.compile(plan, loaded.weights, limits)
    return LoadedModel(executable=executable, spec=spec, plan=plan, dropped=loaded.dropped)
