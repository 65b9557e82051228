"""Which kernel each op of a model gets on this machine, and why: the model is loaded and compiled, and not run."""

from __future__ import annotations

from pelton.api.assemble import find_weight_folder, make_backend, make_limits, open_model
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


def check_packed_weights(folder: str) -> list[tuple[str, str, str]]:
    """(file, model, verdict) for each file of packed weights; the verdict is "good" or what is wrong.

    `folder` is a value of `weight_cache`. Reads all of them, and the models they are of.
    """
    from pelton.backends.cpu.weight_cache import check_folder  # noqa: PLC0415

    return [(str(path), model, problem or "good") for path, model, problem in check_folder(find_weight_folder(folder))]
