"""The requests of a client that have not ended: where their outputs go, and what would be needed to send them again.

Every request gets exactly one output with a finish_reason, whatever happens to the engine: `deliver` and `end_all` are
the only places that hand it over, and both take the request out first. A reader that is slow does not hold up anybody:
outputs it has not read are merged into one, so what is kept is bounded by its tokens.

Belongs to the thread of the client's event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from typing import final

import msgspec

from pelton.core.outputs import FinishReason, RequestOutput, Timings
from pelton.core.step import NewRequest, RequestId
from pelton.errors import RequestError


def merge_outputs(first: RequestOutput, second: RequestOutput) -> RequestOutput:
    """One output that says what both say."""
    return msgspec.structs.replace(
        second,
        token_ids=first.token_ids + second.token_ids,
        logprobs=first.logprobs + second.logprobs,
        num_cached_tokens=max(first.num_cached_tokens, second.num_cached_tokens),
    )


def make_abort(request_id: RequestId) -> RequestOutput:
    """The last output of a request that is ended from this side."""
    return RequestOutput(request_id=request_id, finish_reason="abort")


@final
class LiveRequest:
    """A request, the tokens it has had, and the outputs that its reader has not taken yet."""

    def __init__(self, request: NewRequest) -> None:
        self.request = request
        self.output_token_ids = list(request.output_token_ids)
        self.is_sent = False  # the engine knows of it
        self.is_answered = False  # and has given tokens of it
        self.is_aborted = False  # the engine was told to end it, and has not said that it did
        self.num_restarts = 0  # of the engine, while it had the request
        self._timings = Timings()
        self._unread: RequestOutput | None = None
        self._arrived = asyncio.Event()

    def put(self, output: RequestOutput) -> None:
        """Hand an output over. Never blocks."""
        self.output_token_ids += output.token_ids
        self.is_answered = True
        output = self._with_own_timings(output)
        self._unread = output if self._unread is None else merge_outputs(self._unread, output)
        self._arrived.set()

    def make_resumed(self) -> NewRequest:
        """The request as another engine must get it, to go on where this one stopped."""
        if len(self.output_token_ids) == len(self.request.output_token_ids):
            return self.request
        return msgspec.structs.replace(self.request, output_token_ids=tuple(self.output_token_ids))

    def _with_own_timings(self, output: RequestOutput) -> RequestOutput:
        """With the first times of all engines that had the request."""
        if self.num_restarts == 0:
            self._timings = output.timings
            return output
        first = self._timings
        timings = msgspec.structs.replace(
            output.timings,
            first_scheduled_s=first.first_scheduled_s or output.timings.first_scheduled_s,
            first_token_s=first.first_token_s or output.timings.first_token_s,
            num_restarts=self.num_restarts,
        )
        self._timings = timings
        return msgspec.structs.replace(output, timings=timings)

    async def read(self) -> RequestOutput:
        """All that arrived since the last call, as one output; waits for the first."""
        await self._arrived.wait()
        self._arrived.clear()
        output, self._unread = self._unread, None
        assert output is not None, "two readers of one request"
        return output


@final
class LiveRequests:
    """Live requests by id."""

    def __init__(self) -> None:
        self._live: dict[RequestId, LiveRequest] = {}
        self._left: set[RequestId] = set()  # readers are gone, the engine has not said its last word
        self._is_empty = asyncio.Event()
        self._is_empty.set()

    def __len__(self) -> int:
        return len(self._live)

    def __iter__(self) -> Iterator[LiveRequest]:
        return iter(list(self._live.values()))

    def open(self, request: NewRequest) -> LiveRequest:
        """Begin to listen for a request. Raises RequestError if its id is in use."""
        if request.request_id in self._live or request.request_id in self._left:
            raise RequestError(
                f"request id {request.request_id!r} is in use. Give every live request an id of its own."
            )
        live = self._live[request.request_id] = LiveRequest(request)
        self._is_empty.clear()
        return live

    def leave(self, request_id: RequestId) -> bool:
        """Stop listening. True if the request had not ended: then the engine must be told.

        Its id stays in use until its last output has come, or that would end the next request of this id.
        """
        live = self._live.get(request_id)
        if live is not None:
            if live.is_sent:
                self._left.add(request_id)
            self._remove(request_id)
        return live is not None

    def deliver(self, outputs: Iterable[RequestOutput]) -> None:
        """Hand each output to its reader. Outputs of requests that nobody listens to any more are dropped."""
        for output in outputs:
            live = self._live.get(output.request_id)
            if live is not None:
                if output.finish_reason is not None:
                    self._remove(output.request_id)
                live.put(output)
            elif output.finish_reason is not None:
                self._left.discard(output.request_id)

    def unsend_all(self) -> None:
        """The engine is gone: it knows of none of them, and will not say a last word of those that left."""
        for live in self:
            live.num_restarts += live.is_sent
            live.is_sent = live.is_answered = False
        self._left.clear()

    def find(self, request_id: RequestId) -> LiveRequest | None:
        """The live request of this id."""
        return self._live.get(request_id)

    def end_aborted(self) -> None:
        """End those that an engine was to end which is gone: the next one does not get them."""
        self.deliver(make_abort(live.request.request_id) for live in self if live.is_aborted)

    def end_all(self, reason: FinishReason, error: str | None = None) -> None:
        """End every request, from this side."""
        self.deliver(
            RequestOutput(request_id=live.request.request_id, finish_reason=reason, error=error) for live in self
        )
        self._left.clear()

    async def wait_until_empty(self, timeout_s: float) -> bool:
        """Whether all requests ended within `timeout_s`."""
        try:
            await asyncio.wait_for(self._is_empty.wait(), timeout_s)
        except TimeoutError:
            return False
        return True

    def _remove(self, request_id: RequestId) -> None:
        del self._live[request_id]
        if not self._live:
            self._is_empty.set()


async def read_to_end(
    live: LiveRequest, requests: LiveRequests, tell_engine: Callable[[RequestId], None]
) -> AsyncGenerator[RequestOutput]:
    """Yield a request's outputs up to the last. Closing early calls `tell_engine`, once."""
    try:
        while True:
            output = await live.read()
            yield output
            if output.finish_reason is not None:
                return
    finally:
        if requests.leave(live.request.request_id):
            tell_engine(live.request.request_id)
