"""What the handlers of one server share."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import re
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol, final

from pelton import __version__
from pelton.api.generation_default import choose_defaults
from pelton.api.text_engine import TextEngine
from pelton.config.report import make_json
from pelton.config.schema import EngineConfig
from pelton.errors import UnknownModel
from pelton.observability.metrics import Metrics
from pelton.server.admission import Admission
from pelton.server.backlog import estimate_wait_s
from pelton.server.request_record import RequestRecord
from pelton.server.tenant import Keys, load_keys

_SANE_ID = re.compile(r"[A-Za-z0-9._:\-]{1,128}")


class Identity(Protocol):
    """What answers say of the server that made them."""

    @property
    def model_name(self) -> str:
        """The name that answers carry."""

    @property
    def fingerprint(self) -> str:
        """Changes with whatever may change an answer."""


@final
@dataclass(slots=True, kw_only=True)
class ServerState:
    """One server's engine, names and counts."""

    engine: TextEngine
    metrics: Metrics
    admission: Admission
    keys: Keys
    started_s: int = field(default_factory=lambda: int(time.time()))
    numbers: Iterator[int] = field(default_factory=itertools.count)
    pin_lock: asyncio.Lock = field(default_factory=asyncio.Lock)  # a share is looked at and taken by one at a time
    on_request_end: Callable[[RequestRecord], None] | None = None  # besides log and metrics: traces

    @classmethod
    def make(cls, engine: TextEngine) -> ServerState:
        """For a server around `engine`."""
        config = engine.parts.config
        cache_info = {
            "block_size": engine.parts.facts.block_size,
            "num_blocks": engine.parts.facts.num_blocks,
            "kv_cache_memory_bytes": config.cache.kv_cache_memory_bytes,
        }
        client = engine.parts.client
        metrics = Metrics(config.model.served_model_name[0], client.stats, cache_info)
        keys = load_keys(config.server)
        return cls(
            engine=engine,
            metrics=metrics,
            keys=keys,
            admission=Admission(
                config.scheduler.max_num_requests + config.server.max_num_queued_requests,
                config.server.max_queued_tokens,
                tenant_share=config.server.tenant_share if keys.num_tenants > 1 else 1.0,
                estimate_wait_s=lambda: estimate_wait_s(client.stats()),
                on_level=metrics.set_overload_level,
            ),
        )

    @property
    def config(self) -> EngineConfig:
        return self.engine.parts.config

    @property
    def model_name(self) -> str:
        """The name that answers carry."""
        return self.config.model.served_model_name[0]

    @property
    def defaults(self) -> dict[str, Any]:
        """Sampling values for what a request leaves open."""
        return choose_defaults(self.engine.parts.generation, self.config.model.generation_config)

    @property
    def fingerprint(self) -> str:
        """Changes with the version and with every setting that may change an answer."""
        parts = self.engine.parts
        what = f"{parts.config.model}{parts.config.runner.backend}{parts.facts.details}"
        return f"pelton-{__version__}-{hashlib.sha256(what.encode()).hexdigest()[:8]}"

    def check_model(self, model: str | None) -> None:
        """Raise UnknownModel unless `model` is served here or not given."""
        names = self.config.model.served_model_name
        if model is not None and model not in names:
            raise UnknownModel(
                f"model: {model[:128]!r} is not served here. Known: {', '.join(names)}.",
                param="model",
                code="model_not_found",
            )

    def make_engine_request_id(self, answer_id: str) -> str:
        """An id that no other request of this server has, though clients may choose part of the answer's id."""
        return f"{answer_id}-{next(self.numbers)}"

    def config_json(self) -> dict[str, Any]:
        """What GET /config answers."""
        parts = self.engine.parts
        return make_json(parts.config, parts.asked, parts.decisions)


def choose_request_id(wanted: str | None) -> str:
    """`wanted`, if it is short and plain enough to be written to logs and headers; otherwise one of our own."""
    if wanted is not None and _SANE_ID.fullmatch(wanted):
        return wanted
    return uuid.uuid4().hex
