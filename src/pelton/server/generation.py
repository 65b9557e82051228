"""The way of a generation request through the server, the same for completions and chat, streamed and whole.

Room is held from before the body is read (gate.py) until the last event; the route's `Shape` says what an answer looks
like. A whole answer is the fold of the same deltas that a stream sends.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from pelton.api.output import Completion, TextDelta
from pelton.core.sampling_params import SamplingParams
from pelton.errors import CapacityError
from pelton.observability.log import Log
from pelton.server.deadline import HEADER, read_deadline, within
from pelton.server.disconnect import until_disconnect
from pelton.server.error_answer import JsonResponse
from pelton.server.event_stream import EventStream
from pelton.server.field import Schema
from pelton.server.json_body import decode_json, read_body
from pelton.server.request_record import current_held, current_record, current_tenant
from pelton.server.sampling_field import SamplingFields
from pelton.server.state import ServerState
from pelton.server.tally import Tally

log = Log("server")
T = TypeVar("T", bound=msgspec.Struct)
Chunks = list[dict[str, Any]]
MAX_INLINE_BYTES = 128 * 1024  # bodies up to this are decoded on the event loop, in about 1 ms
IGNORED_HEADER = "x-pelton-ignored-fields"


class Shape(ABC):
    """What one request's answer looks like in JSON."""

    @abstractmethod
    def make_chunk(self, choices: list[dict[str, Any]]) -> dict[str, Any]:
        """A chunk of a stream with these choices."""

    @abstractmethod
    def make_choices(self, delta: TextDelta, is_first: bool) -> Iterable[dict[str, Any]]:
        """What `delta` adds to a stream, one chunk each. `is_first`: the answer has had no delta before."""

    @abstractmethod
    def make_whole(self, completions: list[Completion], usage: dict[str, Any]) -> dict[str, Any]:
        """The whole answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A request that is ready for the engine, and the shape of its answer."""

    prompts: list[tuple[int, ...]]
    sampling: SamplingParams
    shape: Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A checked request before any costly work: how many answers it wants, and how to prepare it."""

    answer_id: str
    fields: SamplingFields
    num_answers: int
    prepare: Callable[[], Awaitable[Job]]
    ignored_fields: list[str]
    deadline_s: float = 0.0  # on the monotonic clock; 0: none


async def read_request(request: Request, state: ServerState, schema: Schema[T]) -> tuple[T, list[str]]:
    """The checked fields of a request, and the names of those ignored. Raises RequestError."""
    body = await read_body(request, state.config.server.max_body_bytes, on_bytes=current_held().expect)

    def parse() -> tuple[T, list[str]]:
        return schema.parse(decode_json(body), ignore_unknown=state.config.server.ignore_unknown_fields)

    fields, ignored = parse() if len(body) <= MAX_INLINE_BYTES else await asyncio.to_thread(parse)
    if ignored:
        log.warning("unknown request fields are ignored", fields=",".join(ignored), path=request.scope["path"])
    return fields, ignored


def make_ignored_headers(ignored_fields: list[str]) -> dict[str, str]:
    """The header that tells a client which of its fields were unknown."""
    names = ", ".join(ignored_fields[:32]).encode("ascii", "replace").decode()
    return {IGNORED_HEADER: "".join(c if c.isprintable() else "?" for c in names)} if names else {}


async def answer(request: Request, state: ServerState, call: Call) -> Response | EventStream:
    """Run `call` and give its answer. Raises ClientGone, after which nothing of it is left in the engine."""
    headers = make_ignored_headers(call.ignored_fields)
    record = current_record()
    start_s = time.monotonic() if record is None else record.start_s
    deadline_s = read_deadline(request.headers.get(HEADER), call.fields.timeout, start_s)
    call = replace(call, deadline_s=deadline_s)
    if not call.fields.stream:
        whole = await until_disconnect(request.receive, fold(state, call))
        return JsonResponse(whole, headers=headers)
    events = stream(state, call)
    try:
        first = await until_disconnect(request.receive, take_first(events))
    except BaseException:
        await events.aclose()
        raise
    raw_headers = [(name.encode(), value.encode()) for name, value in headers.items()]
    return EventStream(first, events, call.answer_id, raw_headers)


async def take_first(events: AsyncGenerator[Chunks]) -> Chunks:
    """The first chunks of a stream; it has at least one, or raises."""
    return await anext(events)


async def run(state: ServerState, call: Call) -> AsyncGenerator[tuple[TextDelta, Job, Tally]]:
    """Yield the deltas of `call` while room for it is held."""
    fields, held = call.fields, current_held()
    with Tally(state.metrics, call.num_answers) as tally:
        held.ask(call.num_answers, fields.priority or 0)
        state.admission.check_deadline(call.deadline_s, time.monotonic())
        tally.stage = "prepare"
        async with within(call.deadline_s):
            job = await call.prepare()
        sampling = job.sampling
        held.settle(count_tokens(job, state.engine.max_model_len))
        tally.begin([len(p) for p in job.prompts], n=sampling.n, max_tokens=sampling.max_tokens)
        deltas = state.engine.generate(
            job.prompts,
            sampling,
            request_id=state.make_engine_request_id(call.answer_id),
            priority=fields.priority or 0,
            cache_salt=fields.cache_salt or "",
            explain_cache=bool(fields.explain_cache),
            tenant=current_tenant(),
            deadline_s=call.deadline_s,
        )
        async with aclosing(deltas):
            async for delta in deltas:
                tally.add(delta)
                if delta.finish_reason == "abort":
                    raise CapacityError("The server ended the request before its answer was whole: it shuts down.")
                yield delta, job, tally


def count_tokens(job: Job, max_model_len: int) -> int:
    """Tokens of all prompts and of all answers at their longest."""
    n, max_tokens = job.sampling.n, job.sampling.max_tokens
    longest = (min(max_model_len, len(p) + (max_model_len if max_tokens is None else max_tokens)) for p in job.prompts)
    return n * sum(longest)


async def fold(state: ServerState, call: Call) -> dict[str, Any]:
    """The whole answer of `call`."""
    parts: list[list[TextDelta]] = [[] for _ in range(call.num_answers)]
    last: tuple[Job, Tally] | None = None
    async with aclosing(run(state, call)) as deltas:
        async for delta, job, tally in deltas:
            last = (job, tally)
            parts[delta.index].append(delta)
    assert last is not None, "every answer has a delta with its finish reason"
    job, tally = last
    whole = job.shape.make_whole([join(i, each) for i, each in enumerate(parts)], tally.usage)
    return {**whole, "timings": tally.timings} if state.config.server.per_request_metrics else whole


def join(index: int, deltas: list[TextDelta]) -> Completion:
    """One answer from all its deltas, in time linear in its length."""
    last = deltas[-1]
    return Completion(
        index=index,
        text="".join(delta.text for delta in deltas),
        token_ids=tuple(token_id for delta in deltas for token_id in delta.token_ids),
        logprobs=tuple(entry for delta in deltas for entry in delta.logprobs),
        finish_reason=last.finish_reason,
        stop_reason=last.stop_reason,
        timings=last.timings,
    )


async def stream(state: ServerState, call: Call) -> AsyncGenerator[Chunks]:
    """Yield the chunks of `call`, those that belong to one delta together."""
    options = call.fields
    last_chunk: Chunks = []
    is_first = [True] * call.num_answers
    shows_timings = state.config.server.per_request_metrics
    async with aclosing(run(state, call)) as deltas:
        async for delta, job, tally in deltas:
            chunks = [job.shape.make_chunk([choice]) for choice in job.shape.make_choices(delta, is_first[delta.index])]
            is_first[delta.index] = False
            for chunk in chunks:
                if options.wants_usage_in_chunks:
                    chunk["usage"] = tally.usage
                elif options.wants_usage_in_stream:
                    chunk["usage"] = None
            timings = {"timings": tally.timings} if shows_timings and tally.is_done else {}
            if options.wants_usage_in_stream and tally.is_done:
                last_chunk = [{**job.shape.make_chunk([]), "usage": tally.usage, **timings}]
            elif timings and chunks:
                chunks[-1].update(timings)
            if chunks:
                yield chunks
    if last_chunk:
        yield last_chunk
