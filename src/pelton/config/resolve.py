"""From what was asked, the model and the machine to the complete configuration, with a reason for every choice.

Invariant: a rule fills what nobody asked for and may only refuse what somebody did. The rules run once, in the order
of RULES, each seeing what the earlier ones decided. Pure: the same input gives the same configuration in every process.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import PurePath
from typing import Final

from pelton.config import memory_rule
from pelton.config.decision import Decision, Draft
from pelton.config.features import check_features, get_features
from pelton.config.hardware import Hardware
from pelton.config.model_facts import ModelFacts
from pelton.config.schema import SECTIONS, SETTINGS, EngineConfig
from pelton.config.user_config import UserConfig
from pelton.errors import ConfigError

_FILE_ENDING: Final = re.compile(r"(-\d{5}-of-\d{5})?\.gguf$")

Rule = Callable[[Draft], Decision | None]

_FEW_CORES: Final = 8
_NARROW_HIDDEN_SIZE: Final = 768  # see docs/decisions/0006-wide-activations.md
_BATCHED_TOKENS: Final = 512  # enough rows to keep the matrix kernels busy; more only lengthens the step
_PREFILL_CHUNK: Final = 128  # the kernels are at their peak with it, and running requests wait for one chunk at most


def resolve(asked: UserConfig, model: ModelFacts, hardware: Hardware) -> tuple[EngineConfig, tuple[Decision, ...]]:
    """The complete configuration and what was chosen to make it so. Raises ConfigError for what cannot be."""
    draft = Draft(asked=asked, model=model, hardware=hardware, decided={})
    decisions: list[Decision] = []
    for rule in RULES:
        decision = rule(draft)
        if decision is not None:
            assert draft.is_open(decision.field), f"a rule replaces {decision.field}, which was asked for"
            draft = replace(draft, decided={**draft.decided, decision.field: decision.value})
            decisions.append(decision)
    sections = {
        name: schema(**{s.name: draft.value(s.name) for s in SETTINGS.values() if s.section == name})
        for name, schema in SECTIONS.items()
    }
    config = EngineConfig(**sections)
    check_features(get_features(config))
    return config, tuple(decisions)


def served_model_name(draft: Draft) -> Decision | None:
    """The last part of a path without its suffix, be it that of a part; a repo id as it is."""
    if not draft.is_open("served_model_name"):
        return None
    path = PurePath(draft.value("model"))
    is_file = path.suffix == ".gguf" or path.is_absolute() or path.parts[:1] in ((".",), ("..",), ("~",))
    name = _FILE_ENDING.sub("", path.name) if is_file else str(path)
    return Decision("served_model_name", (name,), "the name of the model")


def backend(draft: Draft) -> Decision | None:
    """The native kernels, unless somebody wants the definition of them."""
    if not draft.is_open("backend"):
        return None
    return Decision("backend", "cpu", f"its kernels run on this {draft.hardware.machine} machine")


def dtype(draft: Draft) -> Decision | None:
    """Float32 between ops."""
    if not draft.is_open("dtype"):
        return None
    why = f"values between ops are float32; weights stay as they are ({draft.model.weight_dtype})"
    return Decision("dtype", "float32", why)


def wide_activations(draft: Draft) -> Decision | None:
    """16 bits where 8 would show: in every linear of a narrow model, for the likely tokens of any."""
    if not draft.is_open("wide_activations"):
        return None
    hidden_size = draft.model.hidden_size
    if hidden_size < _NARROW_HIDDEN_SIZE:
        return Decision("wide_activations", "all", f"8 bits show in a model {hidden_size} wide, and 16 cost it little")
    return Decision("wide_activations", "likely", "the head's rounding goes straight into the logits that matter")


def num_threads(draft: Draft) -> Decision | None:
    """One thread for each physical core that this process may use."""
    cores, cpus = draft.hardware.num_cores, draft.hardware.num_cpus
    if draft.is_open("num_threads"):
        return Decision("num_threads", cores, f"{cores} physical cores are available to this process")
    if draft.value("num_threads") > cpus:
        raise ConfigError(
            f"{draft.name('num_threads')}: only {cpus} CPUs are available to this process, and threads that wait "
            f"for a CPU hold up all others. Use at most {cpus}."
        )
    return None


def block_size(draft: Draft) -> Decision | None:
    """As many tokens as the attention kernel reads at a time."""
    if not draft.is_open("block_size"):
        return None
    return Decision("block_size", 32, "the attention kernels read keys 32 at a time")


def kv_cache_dtype(draft: Draft) -> Decision | None:
    """Half the size of the numbers that were computed, unless they are to be kept as they are."""
    if not draft.is_open("kv_cache_dtype"):
        return None
    if draft.value("backend") == "reference" or draft.value("exact"):
        return Decision("kv_cache_dtype", "float32", "keys and values stay as they were computed")
    return Decision("kv_cache_dtype", "bfloat16", "half the memory of float32, and what the kernels multiply")


def max_num_requests(draft: Draft) -> Decision | None:
    """More requests share the reading of the weights, until arithmetic is the limit."""
    if not draft.is_open("max_num_requests"):
        return None
    cores = draft.hardware.num_cores
    count, why = (32, f"{cores} cores are at their limit with 32") if cores < _FEW_CORES else (64, f"{cores} cores")
    if not draft.is_open("max_num_batched_tokens") and draft.value("max_num_batched_tokens") < count:
        count = draft.value("max_num_batched_tokens")
        why = f"each running request needs one of {draft.name('max_num_batched_tokens')}"
    return Decision("max_num_requests", count, why)


def max_num_batched_tokens(draft: Draft) -> Decision | None:
    """Room for one token of every request, and for prefill beside them."""
    requests = draft.value("max_num_requests")
    if not draft.is_open("max_num_batched_tokens"):
        if draft.value("max_num_batched_tokens") < requests:
            raise ConfigError(
                f"{draft.name('max_num_batched_tokens')} is less than {draft.name('max_num_requests')}: each running "
                f"request needs one token of a step. Raise the first or lower the second."
            )
        return None
    chunk = 0 if draft.is_open("max_prefill_chunk") else draft.value("max_prefill_chunk")
    tokens = max(_BATCHED_TOKENS, requests, chunk)
    why = "keeps the matrix kernels busy; a longer step would hold up running requests"
    if tokens > _BATCHED_TOKENS:
        why = f"the largest of {requests} requests and a prefill chunk of {chunk}"
    return Decision("max_num_batched_tokens", tokens, why)


def max_prefill_chunk(draft: Draft) -> Decision | None:
    """A chunk is as long as running requests wait for a newcomer."""
    budget = draft.value("max_num_batched_tokens")
    if not draft.is_open("max_prefill_chunk"):
        if draft.value("max_prefill_chunk") > budget:
            raise ConfigError(
                f"{draft.name('max_prefill_chunk')} is more than {draft.name('max_num_batched_tokens')}, which is "
                f"all that a step computes. Lower the first or raise the second."
            )
        return None
    if budget < _PREFILL_CHUNK:
        return Decision("max_prefill_chunk", budget, f"all of {draft.name('max_num_batched_tokens')}")
    return Decision("max_prefill_chunk", _PREFILL_CHUNK, "running requests wait for at most one chunk of a newcomer")


RULES: Final[tuple[Rule, ...]] = (
    served_model_name,
    backend,
    dtype,
    wide_activations,
    num_threads,
    block_size,
    kv_cache_dtype,
    max_num_requests,
    max_num_batched_tokens,
    max_prefill_chunk,
    memory_rule.weights_fit,
    memory_rule.length_fits_model,
    memory_rule.kv_cache_memory_bytes,
    memory_rule.max_model_len,
    memory_rule.num_blocks,
)
