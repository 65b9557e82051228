"""How the rest of the program talks to an engine, wherever that runs."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator

from pelton.core.outputs import EngineStats, PrefixInfo, RequestOutput
from pelton.core.step import NewRequest, RequestId
from pelton.engine.prefix_query import PrefixQueries
from pelton.errors import CapacityError


class EngineClient(ABC):
    """An engine in another process, or in this one. All methods belong to one event loop."""

    @abstractmethod
    def generate(self, request: NewRequest) -> AsyncGenerator[RequestOutput]:
        """Submit `request` and yield its outputs; the last one has a finish_reason, always.

        Closing the iterator early aborts the request. If the engine dies for good, the last output says "error".
        """

    @abstractmethod
    async def abort(self, request_id: RequestId) -> None:
        """End a request with finish_reason "abort". Unknown and finished ids are ignored."""

    @abstractmethod
    def stats(self) -> EngineStats:
        """The newest figures that the engine has sent. Never blocks."""

    @abstractmethod
    def health_problem(self) -> str | None:
        """Why the engine cannot be trusted with a request (dead, starting, no step finished for too long), or None."""

    def refusal(self) -> str | None:
        """Why a request would be refused now, or None: it is taken, even if an engine has to be started again first."""
        return self.health_problem()

    async def wait_until_lost(self) -> str:
        """Wait until the engine is gone and none will be started in its place; why. That may never be."""
        never: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        return await never

    @property
    def prefixes(self) -> PrefixQueries:
        """Names for prefixes that stay in the cache. Raises CapacityError while there is no engine to ask."""
        raise CapacityError("This engine keeps no named prefixes.")

    async def pin_prefix(
        self, name: str, tenant: str, cache_salt: str, token_ids: tuple[int, ...], ttl_s: float | None
    ) -> PrefixInfo:
        """Keep what is cached of a prefix, now or later, until `ttl_s` have passed (None: until it is released).

        Raises RequestError, RateLimited or CapacityError, as `kvcache.named_prefix` does.
        """
        return await self.prefixes.pin(name, tenant=tenant, cache_salt=cache_salt, token_ids=token_ids, ttl_s=ttl_s)

    async def list_prefixes(self, tenant: str) -> list[PrefixInfo]:
        """The names that a tenant has given to prefixes."""
        return await self.prefixes.list_of(tenant)

    async def release_prefix(self, name: str, tenant: str) -> bool:
        """Let a name go. False if the tenant has none of that name."""
        return await self.prefixes.release(name, tenant)

    @abstractmethod
    async def close(self, drain_timeout_s: float = 0.0) -> None:
        """Let live requests run for at most `drain_timeout_s`, abort the others, and end the engine."""
