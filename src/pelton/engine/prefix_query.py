"""Named prefixes from afar: questions of a client, their answers in the engine, and what a later engine must be told.

A question has a number, and its answer the same one. A client that loses its engine fails the questions under way and
tells the next engine the names that still hold, so a name outlives the engine; its blocks are computed again by the
first request that begins with them.

`answer` runs in the engine, `PrefixQueries` belongs to the event loop of the client.
"""

from __future__ import annotations

import asyncio
import itertools
import math
import time
from collections.abc import Callable
from typing import Final, final

import msgspec

from pelton.core.messages import ListPrefixes, PinPrefix, PrefixAnswer, PrefixQuestion, ReleasePrefix
from pelton.core.outputs import PrefixInfo
from pelton.errors import CapacityError, EngineError, InternalError, RateLimited, RequestError
from pelton.kvcache.block_cache import BlockCache
from pelton.kvcache.prefix_tree import Salt

ERRORS: Final = {error.__name__: error for error in (CapacityError, RateLimited, RequestError)}
FORGOTTEN: Final = 0  # number of a question whose answer nobody waits for


def answer(cache: BlockCache, question: PrefixQuestion, now_s: float) -> PrefixAnswer:
    """Do what a question asks for. An error is part of the answer, never raised."""
    try:
        return PrefixAnswer(number=question.number, prefixes=tuple(_apply(cache, question, now_s)))
    except EngineError as error:
        param = error.param if isinstance(error, RequestError) else None
        kind = type(error).__name__
        return PrefixAnswer(number=question.number, error=str(error), error_class=kind, param=param)


def _apply(cache: BlockCache, question: PrefixQuestion, now_s: float) -> list[PrefixInfo]:
    match question:
        case PinPrefix():
            if not cache.is_enabled:
                why = "this server was started without prefix caching."
                raise RequestError(f"prefix {question.name!r}: {why}", param="name")
            salt = Salt(question.tenant, question.cache_salt)
            return [cache.names.pin(question.name, salt, question.token_ids, question.ttl_s, now_s)]
        case ReleasePrefix():
            released = [info for info in cache.names.list_of(question.tenant, now_s) if info.name == question.name]
            cache.names.release(question.name, question.tenant)
            return released
        case _:
            return cache.names.list_of(question.tenant, now_s)


@final
class PrefixQueries:
    """The questions of one client. `send` takes them to the engine that is there."""

    def __init__(self, send: Callable[[PrefixQuestion], None], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._send = send
        self._clock = clock
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[PrefixAnswer]] = {}
        self._names: dict[tuple[str, str], tuple[PinPrefix, float]] = {}  # by tenant and name, with their ends

    async def pin(
        self, name: str, *, tenant: str, cache_salt: str, token_ids: tuple[int, ...], ttl_s: float | None
    ) -> PrefixInfo:
        """Keep a prefix under a name. Raises what the engine answers."""
        number = next(self._numbers)
        question = PinPrefix(
            number=number, name=name, tenant=tenant, cache_salt=cache_salt, token_ids=token_ids, ttl_s=ttl_s
        )
        (info,) = await self._ask(question)
        self._forget_expired()
        self._names[tenant, name] = (question, math.inf if ttl_s is None else self._clock() + ttl_s)
        return info

    async def list_of(self, tenant: str) -> list[PrefixInfo]:
        """A tenant's names."""
        return await self._ask(ListPrefixes(number=next(self._numbers), tenant=tenant))

    async def release(self, name: str, tenant: str) -> bool:
        """Let a name go. False if there is none."""
        released = await self._ask(ReleasePrefix(number=next(self._numbers), name=name, tenant=tenant))
        self._names.pop((tenant, name), None)
        return bool(released)

    def deliver(self, answer: PrefixAnswer) -> None:
        """Hand an answer to whoever asked, if somebody still waits."""
        future = self._waiting.pop(answer.number, None)
        if future is not None and not future.done():
            future.set_result(answer)

    def fail_all(self, reason: str) -> None:
        """The engine is gone: nobody will answer."""
        for number in list(self._waiting):
            self.deliver(PrefixAnswer(number=number, error=reason, error_class=CapacityError.__name__))

    def renew(self) -> None:
        """Tell an engine that has just been started the names that hold."""
        now_s = self._clock()
        self._forget_expired()
        for pin, ends_s in self._names.values():
            ttl_s = None if math.isinf(ends_s) else ends_s - now_s
            self._send(msgspec.structs.replace(pin, number=FORGOTTEN, ttl_s=ttl_s))

    def _forget_expired(self) -> None:
        now_s = self._clock()
        self._names = {key: (pin, ends_s) for key, (pin, ends_s) in self._names.items() if ends_s > now_s}

    async def _ask(self, question: PrefixQuestion) -> list[PrefixInfo]:
        future = self._waiting[question.number] = asyncio.get_running_loop().create_future()
        try:
            self._send(question)
            answer = await future
        finally:
            self._waiting.pop(question.number, None)
        if answer.error and answer.error_class == RequestError.__name__:
            raise RequestError(answer.error, param=answer.param)
        if answer.error:
            raise ERRORS.get(answer.error_class, InternalError)(answer.error)
        return list(answer.prefixes)
