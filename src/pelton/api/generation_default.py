"""Sampling values that a request leaves open: the model authors' own, or neutral ones.

A value the request gives always wins. `generation_config=auto` is what the field does: a model's generation_config.json
changes temperature, top_p and more; `neutral` takes the defaults of `SamplingParams`.
"""

from __future__ import annotations

from typing import Any

from pelton.checkpoint.contract import GenerationDefaults
from pelton.core.sampling_params import SamplingParams
from pelton.errors import RequestError

FIELDS = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")


def choose_defaults(generation: GenerationDefaults, generation_config: str) -> dict[str, Any]:
    """The sampling fields that are not neutral under `--generation-config`, with their values."""
    if generation_config != "auto":
        return {}
    found = {name: getattr(generation, name) for name in FIELDS}
    return {name: value for name, value in found.items() if value is not None}


def make_sampling(asked: dict[str, Any], defaults: dict[str, Any]) -> SamplingParams:
    """Sampling parameters from what was asked (None: not asked), over `defaults`, over neutral. Raises RequestError."""
    given = {name: value for name, value in asked.items() if value is not None}
    if given.get("temperature") == 0:  # greedy: a cut of the distribution changes nothing, and costs
        defaults = {name: value for name, value in defaults.items() if name == "repetition_penalty"}
    try:
        return SamplingParams(**{**defaults, **given})
    except TypeError as error:
        raise RequestError(f"sampling parameters: {error}.") from error
