"""Every setting of Pelton. A field is the flag, the key in the file, the row in the documentation and the check.

Invariant: a field's name is unique over all sections, so a flag needs no section. A component receives its own section
and never the whole. Values marked `auto` are filled by `resolve`; a component never sees them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from pelton.config.env import LOG_LEVELS
from pelton.config.knob import Setting, get_settings, knob


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """Which model, and how it is read."""

    model: str = knob("", "A directory, a .gguf file, a Hugging Face repo id, or 'demo'.", is_positional=True)
    served_model_name: tuple[str, ...] = knob(
        (), "Names clients may use for the model; the first one appears in answers and metrics.", auto=True
    )
    chat_template: str | None = knob(None, "File with a Jinja chat template, in place of the model's own.")
    generation_config: str = knob(
        "auto", "Sampling defaults: the model's own, or neutral ones.", choices=("auto", "neutral")
    )
    dtype: str = knob("auto", "Arithmetic between ops.", choices=("float32", "float64"), auto=True)
    exact: bool = knob(
        False,
        "Keep activations in float32, keys and values too unless a dtype is asked for: slower, within rounding of the "
        "reference.",
    )
    wide_activations: str = knob(
        "none",
        "What is multiplied with activations of 16 bits, in two 8-bit terms, in place of 8, where weights are "
        "quantized: the likely tokens of the head, all of it, every linear.",
        choices=("none", "likely", "head", "all"),
        auto=True,
    )
    max_model_len: int = knob(
        0, "Longest request, prompt and output together.", unit="tokens", minimum=1, maximum=2**24, auto=True
    )
    seed: int = knob(0, "Seed of requests that bring none of their own.", minimum=0, maximum=2**63 - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheConfig:
    """The memory for keys and values."""

    block_size: int = knob(0, "Tokens held by one KV block.", unit="tokens", choices=(8, 16, 32, 64, 128), auto=True)
    kv_cache_memory_bytes: int = knob(
        0, "Memory for keys and values.", unit="bytes", minimum=1, maximum=2**50, auto=True
    )
    kv_cache_dtype: str = knob(
        "auto",
        "How keys and values are stored; int8 has a scale for each token and head and takes half of bfloat16's memory.",
        choices=("bfloat16", "float32", "int8"),
        auto=True,
    )
    enable_prefix_caching: bool = knob(
        True, "Keep what requests computed, for others that begin with the same tokens and have the same `cache_salt`."
    )
    named_prefix_share: float = knob(
        0.25,
        "Most of the KV cache that the named prefixes of one tenant may keep, as a share.",
        minimum=0,
        maximum=0.25,
    )
    num_blocks: int = knob(0, "KV blocks in the pool.", is_derived=True, auto=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerConfig:
    """What goes into one step."""

    max_num_requests: int = knob(
        0, "Requests that run at the same time.", minimum=1, maximum=4096, alias=("max_num_seqs",), auto=True
    )
    max_num_batched_tokens: int = knob(
        0, "Tokens computed in one step.", unit="tokens", minimum=1, maximum=2**20, auto=True
    )
    max_prefill_chunk: int = knob(
        0, "Prompt tokens of one request computed in one step.", unit="tokens", minimum=1, maximum=2**20, auto=True
    )
    target_itl_ms: float = knob(
        0.0,
        "Longest time between two tokens of a stream while a server computes prompts of others; 0 is twice what it is "
        "without them.",
        unit="milliseconds",
        minimum=0,
        maximum=3600000,
    )
    scheduling_policy: str = knob(
        "fcfs",
        "Order of requests: by arrival, or by their field `priority` (smaller first) and then by arrival.",
        choices=("fcfs", "priority"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerConfig:
    """What computes."""

    executor: str = knob("model", "What computes: model, or oracle or scripted for tests.", is_hidden=True)
    backend: str = knob("auto", "Where plans run.", choices=("cpu", "reference"), auto=True)
    num_threads: int = knob(0, "Threads that compute.", minimum=1, maximum=1024, auto=True)
    weight_cache: str = knob(
        "auto",
        "Where packed weights are kept, so that the next start reads instead of packing them: 'auto' is the folder "
        "'packed' of the cache, 'off' keeps none, anything else is a folder.",
    )
    weight_cache_bytes: int = knob(
        16 * 2**30,
        "Most that packed weights take on disk; those used longest ago go first.",
        unit="bytes",
        minimum=0,
        maximum=2**50,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig:
    """The HTTP border."""

    host: str = knob("127.0.0.1", "Address to listen on; 0.0.0.0 is every network interface.")
    port: int = knob(8000, "Port to listen on; 0 takes a free one.", minimum=0, maximum=65535)
    api_key: str | None = knob(None, "Key that clients must send. Guards everything but /health.", is_secret=True)
    api_keys_file: str | None = knob(
        None,
        "File with a line 'tenant: key' or 'tenant: sha256:HEX' for each key that clients may send. Tenants share no "
        "computed prefixes and get equal parts of a busy server.",
    )
    tenant_share: float = knob(
        0.5,
        "Part of all room that one of several tenants may hold; more is answered with 429.",
        minimum=0.01,
        maximum=1,
    )
    root_path: str = knob("", "Path prefix that a proxy in front strips.")
    allowed_origins: tuple[str, ...] = knob((), "Web origins that browsers may call from (CORS).")
    shutdown_timeout_s: float = knob(
        30.0, "How long live requests may run on after SIGTERM.", unit="seconds", minimum=0, maximum=86400
    )
    max_body_bytes: int = knob(8 * 2**20, "Largest request body.", unit="bytes", minimum=1024, maximum=2**31)
    max_num_queued_requests: int = knob(
        1024, "Requests that may wait; more are answered with 503.", minimum=0, maximum=2**20,
        alias=("max_num_queued_reqs",),
    )  # fmt: skip
    max_queued_tokens: int = knob(
        2**24, "Tokens, of prompts and of answers at their longest, that may run or wait; more is answered with 503.",
        unit="tokens", minimum=1, maximum=2**50,
    )  # fmt: skip
    max_logprobs: int = knob(20, "Most likely tokens that a request may ask for.", minimum=0, maximum=1024)
    ignore_unknown_fields: bool = knob(False, "Warn about unknown request fields instead of refusing the request.")
    docs_page: bool = knob(True, "Serve /docs and /openapi.json.")
    per_request_metrics: bool = knob(True, "Give answers a field `timings`: where the time of the request went.")
    otlp_traces_endpoint: str | None = knob(
        None, "URL that OpenTelemetry traces are sent to, OTLP over HTTP; needs the extra `otel`. Without it, none are."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """What is written to stderr."""

    log_level: str = knob("info", "Least important message that is written.", choices=LOG_LEVELS)
    log_format: str = knob("text", "Lines for people, or one JSON object per line.", choices=("text", "json"))
    access_log: bool = knob(True, "One line for each HTTP request.")


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfig:
    """The complete configuration: every value decided. Made by `resolve` only."""

    model: ModelConfig = field(default_factory=ModelConfig)
    cache: CacheConfig = field(default_factory=CacheConfig)
    scheduler: SchedulerConfig = field(default_factory=SchedulerConfig)
    runner: RunnerConfig = field(default_factory=RunnerConfig)
    server: ServerConfig = field(default_factory=ServerConfig)
    log: LogConfig = field(default_factory=LogConfig)


SECTIONS: Final[dict[str, type]] = {
    "model": ModelConfig,
    "cache": CacheConfig,
    "scheduler": SchedulerConfig,
    "runner": RunnerConfig,
    "server": ServerConfig,
    "log": LogConfig,
}
SETTINGS: Final[dict[str, Setting]] = {
    s.name: s for name, schema in SECTIONS.items() for s in get_settings(name, schema)
}
ALIASES: Final[dict[str, str]] = {alias: s.name for s in SETTINGS.values() for alias in s.knob.alias}
