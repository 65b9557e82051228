"""Counts what one request takes and gives: usage for its client, metrics once for each of its answers, and its times.

Invariant: from `with` to its end every answer lives in the ledger, and every one leaves it exactly once: finished by a
reason, or refused if the request failed before the first token. Usage is a function of the deltas alone, so a stream
and a whole answer report the same. Belongs to one event loop.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self, final

from pelton.api.output import TextDelta
from pelton.core.outputs import CacheMiss
from pelton.errors import CapacityError, DeadlineExceeded, EngineError, RequestError
from pelton.observability.metrics import FinishedRequest, Metrics
from pelton.server.request_record import current_record, current_tenant
from pelton.server.request_times import AnswerTimes, RequestTimes


@final
class Tally:
    """One request for `num_answers`. Use it as a context; `begin` once its prompts are known, `add` every delta."""

    def __init__(
        self,
        metrics: Metrics,
        num_answers: int,
        *,
        tenant: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.stage = "reserve"  # where the request is, should it be refused
        self.finish_reasons: list[str] = [""] * num_answers
        self.sampling: tuple[int, int | None] = (1, None)  # n and max_tokens
        self._metrics = metrics
        self._tenant = tenant or current_tenant()
        self._num_answers = num_answers
        self._clock = clock
        self._arrival_s = clock()
        self._num_prompt_tokens: Sequence[int] = ()
        self._num_cached_tokens: dict[int, int] = {}  # by prompt
        self._cache_misses: dict[int, CacheMiss] = {}  # by prompt
        self._num_output_tokens = [0] * num_answers
        self._last_token_s: list[float | None] = [None] * num_answers
        self._first_token_s: list[float | None] = [None] * num_answers
        self._times = [AnswerTimes() for _ in range(num_answers)]
        self._has_deltas = False

    def __enter__(self) -> Self:
        self._metrics.ledger.receive(self._num_answers, self._tenant)
        record = current_record()
        if record is not None:
            record.tally = self
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: TracebackType | None) -> None:
        """What is not counted yet ends by `error`."""
        if isinstance(error, asyncio.CancelledError | GeneratorExit):  # the client has left
            record = current_record()
            self._end("abort" if record is None else record.leave_reason)
        elif isinstance(error, DeadlineExceeded) and self.stage == "engine":
            self._end("deadline")
        elif isinstance(error, RequestError | CapacityError) and not self._has_deltas:
            self._refuse(error)
        else:
            self._end("error")
        usage = self.usage
        self._metrics.ledger.use(
            prompt=usage["prompt_tokens"],
            cached=usage["prompt_tokens_details"]["cached_tokens"],
            output=usage["completion_tokens"],
            tenant=self._tenant,
        )

    def begin(self, num_prompt_tokens: Sequence[int], *, n: int, max_tokens: int | None) -> None:
        """The prompts are known, and go to the engine."""
        self.stage = "engine"
        self._num_prompt_tokens = num_prompt_tokens
        self.sampling = (n, max_tokens)

    def add(self, delta: TextDelta) -> None:
        """Take a delta in; counts the answer if it is the last."""
        now_s = self._clock()
        index = delta.index
        prompt = index // self.sampling[0]
        self._has_deltas = True
        if self._first_token_s[index] is None:  # an engine that took the request over later may have found more
            self._take_cached(prompt, delta)
        if delta.cache_miss is not None:
            self._cache_misses.setdefault(prompt, delta.cache_miss)
        self._times[index].take(delta.timings)
        if delta.token_ids:
            last_s = self._last_token_s[index]
            if last_s is None:
                self._first_token_s[index] = now_s
            else:
                self._metrics.observe_inter_token((now_s - last_s) / len(delta.token_ids))
            self._last_token_s[index] = now_s
            self._num_output_tokens[index] += len(delta.token_ids)
        if delta.finish_reason is not None and not self.finish_reasons[index]:
            self._count(index, delta.finish_reason, now_s)

    @property
    def is_done(self) -> bool:
        """Whether every answer has ended."""
        return all(self.finish_reasons)

    @property
    def usage(self) -> dict[str, Any]:
        """The token counts so far, in OpenAI's words. A prompt counts once, whatever n is."""
        num_prompt, num_output = sum(self._num_prompt_tokens), sum(self._num_output_tokens)
        details: dict[str, Any] = {"cached_tokens": sum(self._num_cached_tokens.values())}
        if self._cache_misses:
            details["cache_misses"] = [
                {"prompt": prompt, "reason": miss.reason, "position": miss.position}
                for prompt, miss in sorted(self._cache_misses.items())
            ]
        return {
            "prompt_tokens": num_prompt,
            "completion_tokens": num_output,
            "total_tokens": num_prompt + num_output,
            "prompt_tokens_details": details,
        }

    @property
    def times(self) -> RequestTimes:
        """When things happened to the request, all its answers together."""
        return RequestTimes.join([times.now for times in self._times])

    @property
    def timings(self) -> dict[str, Any]:
        """The field `timings` of an answer: where its time went, in milliseconds; null for what has not happened."""
        times, usage = self.times, self.usage
        num_prompt, num_output = usage["prompt_tokens"], usage["completion_tokens"]
        num_cached = usage["prompt_tokens_details"]["cached_tokens"]
        num_first = sum(1 for first_s in self._first_token_s if first_s is not None)
        return {
            "queue_ms": _to_ms(times.queue_s),
            "prefill_ms": _to_ms(times.prefill_s),
            "decode_ms": _to_ms(times.decode_s),
            "prompt_tokens": num_prompt,
            "cached_tokens": num_cached,
            "completion_tokens": num_output,
            "prompt_tokens_per_second": _to_speed(num_prompt - num_cached, times.prefill_s),
            "completion_tokens_per_second": _to_speed(num_output - num_first, times.decode_s),
            "num_preemptions": times.num_preemptions,
            "num_restarts": times.num_restarts,
        }

    def log_fields(self) -> dict[str, Any]:
        """What the access log says of the request: counts, times and reasons, and no word of its text."""
        times, usage = self.times, self.usage
        fields: dict[str, Any] = {
            "prompt_tokens": usage["prompt_tokens"],
            "cached_tokens": usage["prompt_tokens_details"]["cached_tokens"],
            "completion_tokens": usage["completion_tokens"],
            "finish_reason": ",".join(sorted(set(self.finish_reasons))),
        }
        for name, value in (("queue_s", times.queue_s), ("prefill_s", times.prefill_s), ("decode_s", times.decode_s)):
            if value is not None:
                fields[name] = round(value, 4)
        if times.num_preemptions:
            fields["preemptions"] = times.num_preemptions
        if times.num_restarts:
            fields["restarts"] = times.num_restarts
        return fields

    def _take_cached(self, prompt: int, delta: TextDelta) -> None:
        """Of several answers to a prompt the first one computes what the others find: what it found itself counts."""
        if delta.token_ids or delta.num_cached_tokens:
            found = self._num_cached_tokens.setdefault(prompt, delta.num_cached_tokens)
            self._num_cached_tokens[prompt] = min(found, delta.num_cached_tokens)

    def _end(self, reason: str) -> None:
        now_s = self._clock()
        for index, counted in enumerate(self.finish_reasons):
            if not counted:
                self._count(index, reason, now_s)

    def _refuse(self, error: EngineError) -> None:
        self.finish_reasons = ["refused"] * self._num_answers
        self._metrics.ledger.refuse(self._num_answers, self.stage, error.http_status, self._tenant)
        self._num_prompt_tokens = ()  # nothing of it was used

    def _count(self, index: int, reason: str, now_s: float) -> None:
        self.finish_reasons[index] = reason
        times = RequestTimes.join([self._times[index].now])
        first_s = self._first_token_s[index]
        n, max_tokens = self.sampling
        self._metrics.count_finished(
            FinishedRequest(
                finished_reason=reason,
                num_prompt_tokens=self._num_prompt_tokens[index // n] if self._num_prompt_tokens else 0,
                num_output_tokens=self._num_output_tokens[index],
                e2e_s=now_s - self._arrival_s,
                time_to_first_token_s=None if first_s is None else first_s - self._arrival_s,
                queue_s=times.queue_s,
                prefill_s=times.prefill_s,
                decode_s=times.decode_s,
                n=n,
                max_tokens=max_tokens,
                tenant=self._tenant,
            )
        )


def _to_ms(duration_s: float | None) -> float | None:
    return None if duration_s is None else round(duration_s * 1000, 3)


def _to_speed(count: int, duration_s: float | None) -> float | None:
    return round(count / duration_s, 2) if duration_s and count > 0 else None
