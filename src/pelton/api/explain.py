"""Which kernel each op of a model gets on this machine, and why: the model is loaded and compiled, and not run."""

from __future__ import annotations

from pelton.api.assemble import make_backend, make_limits, open_model
from pelton.config.user_config import ask
from pelton.loading import load_model


def explain_model(model: str) -> list[tuple[str, str, str]]:
    """(op, kernel, why) in the order of the plan, without repeats. Raises what loading the model raises."""
    opened = open_model(ask(model=model))
    with opened.checkpoint:
        config = opened.config
        backend = make_backend(config.runner.backend, config.model.dtype)
        loaded = load_model(opened.checkpoint, backend, make_limits(config), config.model.max_model_len)
        return loaded.executable.explain()
