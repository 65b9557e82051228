"""What is suspicious about the configuration: fields that disagree with one another or with the weights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from pelton.checkpoint.contract import Checkpoint
from pelton.checkpoint.hf.family import INERT
from pelton.checkpoint.model_spec import ModelSpec
from pelton.inspection.account import Account
from pelton.inspection.check_files import Ignored
from pelton.inspection.finding import Finding
from pelton.inspection.scan import listed
from pelton.inspection.subject import Subject

_CODE_FIELDS = (
    "auto_map",
    "_attn_implementation",
    "_attn_implementation_internal",
    "model_file",
    "custom_pipelines",
    "trust_remote_code",
    "transformers_weights",  # a path, which need not lead into the directory
)
_HARMLESS_ATTENTION = {None, "eager", "sdpa", "flash_attention_2", "flex_attention"}
_DTYPES = {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}
_LLAMA3_BASE, _LLAMA3_TRAINED = 500_000.0, 8192  # longer contexts came with 3.1, which scales
_LARGE, _UNTIED_WHEN_LARGE = 4096, ("llama", "mistral", "mixtral", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe")
_HEAD_SAMPLE_ROWS = 512
_NEVER = 1 << 40  # model_max_length of tokenizers that do not know it


def check_config(subject: Subject) -> list[Finding]:
    """Findings that need no weights."""
    findings = [*_check_code(subject)]
    for where, config in _levels(subject.config):
        findings += _check_rope_fields(where, config)
    if subject.checkpoint is not None:
        findings += _check_rope_lengths(subject, subject.checkpoint.spec)
        findings += _check_dtype(subject)
        findings += _check_model_type(subject.config, subject.checkpoint.spec.architecture)
    return findings


def _check_model_type(config: Mapping[str, Any], architecture: str) -> list[Finding]:
    """transformers builds a model by its type, other programs by its architecture."""
    given = config.get("model_type")
    if given in (None, "", architecture, f"{architecture}_text"):
        return []
    return [Finding("config.model-type", f"{architecture!r} by architectures, {str(given)[:40]!r} by model_type.")]


def _check_dtype(subject: Subject) -> list[Finding]:
    """The dtype that config.json names, and the dense one that holds the most bytes."""
    names = ("dtype", "torch_dtype")
    said = {str(level[name]) for _, level in _levels(subject.config) for name in names if level.get(name) is not None}
    dense = [info for info in subject.tensors.values() if info.scheme in _DTYPES]
    if len(said) != 1 or not dense or subject.config.get("quantization_config") is not None:
        return []
    stored = _DTYPES[max(dense, key=lambda info: info.nbytes).scheme]
    name = said.pop().removeprefix("torch.")
    if stored == "float16" and str(subject.config.get("model_type")).startswith("gemma"):
        return [Finding("config.float16", f"{subject.config['model_type']}: the weights are float16.")]
    return [] if name == stored else [Finding("config.dtype", f"The weights are {stored}, not {name}.")]


def list_ignored_fields(subject: Subject) -> list[Ignored]:
    """Fields of config.json and keys of GGUF that have no effect."""
    notes = [name for name in subject.config if name.startswith("_")]
    inert = [name for name in subject.config if name in INERT and subject.config[name] not in (None, [], {})]
    generic = [key for key in subject.metadata if key.startswith("general.") and key not in _GENERAL_READ]
    generic = [key for key in generic if not key.startswith("general.sampling.")]
    groups = (
        (inert, "config.json: identity, training, or read from elsewhere"),
        (notes, "config.json: notes of the program that wrote it"),
        (generic, "metadata: description"),
    )
    return [Ignored(listed(names, 6), why) for names, why in groups if names]


_GENERAL_READ = {"general.architecture", "general.alignment", "general.type"}


def _levels(config: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if config:
        yield "config.json", config
    nested = config.get("text_config")
    if isinstance(nested, Mapping):
        yield "config.json: text_config", nested


def _check_code(subject: Subject) -> list[Finding]:
    found = []
    for name, document in subject.documents.items():
        for _, level in _levels(document):
            for field in _CODE_FIELDS:
                value = level.get(field)
                is_attention = field.startswith("_attn") and (
                    not isinstance(value, str) or value in _HARMLESS_ATTENTION
                )
                if value not in (None, False, {}) and not is_attention:
                    found.append(f"{name}: {field}")
    return [Finding("config.code", f"{listed(list(dict.fromkeys(found)))}: names code.")] if found else []


def _check_rope_fields(where: str, config: Mapping[str, Any]) -> list[Finding]:
    """Version 4 writes its fields side by side, version 5 into one object; a file may have both."""
    findings = []
    parameters, scaling = config.get("rope_parameters"), config.get("rope_scaling")
    for name, nested in (("rope_parameters", parameters), ("rope_scaling", scaling)):
        if not isinstance(nested, Mapping):
            continue
        for field in ("rope_theta", "partial_rotary_factor", "original_max_position_embeddings"):
            outer, inner = config.get(field), nested.get(field)
            if outer is not None and inner is not None and outer != inner:
                findings.append(
                    Finding("config.rope-twice", f"{where}: {field} is {outer} beside {name} and {inner} in it.")
                )
        if None not in (nested.get("type"), nested.get("rope_type")) and nested["type"] != nested["rope_type"]:
            findings.append(
                Finding("config.rope-twice", f"{where}: {name} has both type and rope_type, which are not equal.")
            )
    if isinstance(parameters, Mapping) and isinstance(scaling, Mapping):
        same = {**_plain(parameters), "rope_theta": None} == {**_plain(scaling), "rope_theta": None}
        if not same:
            findings.append(Finding("config.rope-twice", f"{where}: rope_parameters and rope_scaling disagree."))
    return findings


def _plain(scaling: Mapping[str, Any]) -> dict[str, Any]:
    """A scaling whose kind goes by its new name."""
    return {("rope_type" if name == "type" else name): value for name, value in scaling.items()}


def _check_rope_lengths(subject: Subject, spec: ModelSpec) -> list[Finding]:
    config = subject.config.get("text_config") if isinstance(subject.config.get("text_config"), Mapping) else None
    config = config or subject.config
    maximum = config.get("max_position_embeddings")
    scalings = {layer.rope.scaling for layer in spec.layers if layer.rope is not None} - {None}
    findings = []
    for scaling in scalings:
        assert scaling is not None, "None was taken out"
        original = scaling.original_max_position
        if scaling.kind == "llama3" or (scaling.kind == "longrope" and scaling.short_factors != scaling.long_factors):
            is_off = isinstance(maximum, int) and original >= maximum
        elif scaling.kind == "yarn":
            is_off = isinstance(maximum, int) and maximum not in (original, int(original * scaling.factor))
        else:
            is_off = False
        if is_off:
            findings.append(
                Finding(
                    "config.rope-original",
                    f"{scaling.kind} scaling from {original:,} tokens by {scaling.factor:g}, and "
                    f"max_position_embeddings {maximum:,}.",
                )
            )
    claimed = subject.documents.get("tokenizer_config.json", {}).get("model_max_length")
    is_longer = isinstance(claimed, int) and spec.max_position < claimed < _NEVER
    if not scalings and (is_longer or config.get("original_max_position_embeddings") is not None):
        seen = (
            f"tokenizer_config.json says {claimed:,} tokens and config.json {spec.max_position:,}, without scaling."
            if is_longer
            else "config.json has original_max_position_embeddings and no rotary scaling."
        )
        findings.append(Finding("config.rope-missing", seen))
    if not scalings and spec.architecture == "llama" and spec.max_position > _LLAMA3_TRAINED and _has_llama3_base(spec):
        seen = f"{spec.max_position:,} tokens with the base of Llama 3, which was trained on {_LLAMA3_TRAINED:,}"
        findings.append(Finding("config.rope-missing", f"{seen}, and without the scaling of Llama 3.1."))
    if spec.tied_embeddings and spec.hidden_size >= _LARGE and spec.architecture in _UNTIED_WHEN_LARGE:
        seen = f"{spec.architecture} of {spec.hidden_size:,} channels, and no head is stored"
        findings.append(Finding("config.tied-large", f"{seen}."))
    architecture = subject.metadata.get("general.architecture")
    has_rope = any(layer.rope is not None for layer in spec.layers)
    if has_rope and architecture is not None and f"{architecture}.rope.freq_base" not in subject.metadata:
        findings.append(Finding("config.rope-base", f"{architecture}.rope.freq_base is not in the file."))
    return findings


def _has_llama3_base(spec: ModelSpec) -> bool:
    return any(layer.rope is not None and layer.rope.theta == _LLAMA3_BASE for layer in spec.layers)


def check_head(checkpoint: Checkpoint, account: Account) -> list[Finding]:
    """A head that is stored in spite of the tied flag: compared with the embedding, in some of its rows."""
    spare = [name for name, reason in account.dropped.items() if "tied" in reason]
    embedding = account.names_of("embed")
    if not spare or not embedding:
        return []
    head, table = checkpoint.tensors[spare[0]], checkpoint.tensors[embedding[0]]
    if head.shape == table.shape and head.scheme == table.scheme:
        step = max(1, head.shape[0] // _HEAD_SAMPLE_ROWS)
        ours, theirs = checkpoint.read(spare[0]).payload, checkpoint.read(embedding[0]).payload
        if np.array_equal(ours[::step], theirs[::step]):
            return [Finding("config.tie-twice", f"{spare[0]} is stored beside {embedding[0]}.")]
    return [Finding("config.tied-head", f"{spare[0]} differs from {embedding[0]}.")]
