"""How the rest of the program talks to an engine, wherever that runs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator

from pelton.core.outputs import EngineStats, RequestOutput
from pelton.core.step import NewRequest, RequestId


class EngineClient(ABC):
    """An engine in another process, or in this one. All methods belong to one event loop."""

    @abstractmethod
    def generate(self, request: NewRequest) -> AsyncGenerator[RequestOutput]:
        """Submit `request` and yield its outputs; the last one has a finish_reason, always.

        Closing the iterator early aborts the request. If the engine dies, the last output says "error".
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

    @abstractmethod
    async def close(self, drain_timeout_s: float = 0.0) -> None:
        """Let live requests run for at most `drain_timeout_s`, abort the others, and end the engine."""
