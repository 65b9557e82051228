"""What a simulated day was like: latencies, waiting, preemptions, and how evenly tenants were served.

The service gap of two tenants is how far what they have had drifts apart while both have somebody waiting, in tokens
of their counters (engine/waiting.py). A queue by turns bounds it by twice the larger of the longest prompt and of what
the running requests may have had since they started, twice a token of answer (Sheng et al. 2024, arXiv:2401.00588).
"""

from __future__ import annotations

from array import array
from collections import Counter
from dataclasses import dataclass
from itertools import combinations
from typing import Any, final

from pelton.bench.load_summary import quantiles
from pelton.bench.simulation import Observer
from pelton.core.outputs import RequestOutput
from pelton.core.step import NewRequest, RequestId, SchedulerOutput
from pelton.errors import DeadlineExceeded

Row = dict[str, Any]


@dataclass(slots=True)
class Stream:
    """An answer under way: `count` tokens came at `now_s`, and those before them at `before_s`."""

    now_s: float
    count: int = 1
    before_s: float | None = None


@final
class Group:
    """What is counted of the requests of one tenant, one priority, or all."""

    def __init__(self) -> None:
        self.ends: Counter[str] = Counter()
        self.num_output_tokens = 0
        self.num_prompt_tokens = 0
        self.num_cached_tokens = 0
        self.ttft_s = array("d")
        self.queue_s = array("d")
        self.itl_s = array("f")

    def begin(self, output: RequestOutput, now_s: float) -> None:
        """Count a first token."""
        self.ttft_s.append(now_s - output.timings.arrival_s)
        self.queue_s.append(output.timings.first_scheduled_s - output.timings.arrival_s)

    def go_on(self, stream: Stream) -> None:
        """Count the tokens that came last: those that come together share the time since the ones before."""
        if stream.before_s is not None:
            self.itl_s.extend([(stream.now_s - stream.before_s) / stream.count] * stream.count)

    def make_row(self, duration_s: float, **about: Any) -> Row:
        """The figures."""
        row = {**about, "requests": self.ends.total()}
        row |= {f"ended_{reason}": count for reason, count in sorted(self.ends.items())}
        row["cached_share"] = self.num_cached_tokens / self.num_prompt_tokens if self.num_prompt_tokens else 0.0
        row["output_tokens_per_s"] = self.num_output_tokens / duration_s if duration_s else 0.0
        for name, values in (("queue", self.queue_s), ("ttft", self.ttft_s), ("itl", self.itl_s)):
            row[f"{name}_p50_s"], row[f"{name}_p99_s"] = quantiles(values)
        return row


@final
class Summary(Observer):
    """Counts what happens in a simulation."""

    def __init__(self) -> None:
        self.all = Group()
        self.by: dict[tuple[str, Any], Group] = {}  # ("tenant" or "priority", which)
        self.num_steps = 0
        self.most_waiting = 0
        self.service_gap = 0.0  # tokens
        self.longest_prompt = 0
        self._requests: dict[RequestId, NewRequest] = {}
        self._streams: dict[RequestId, Stream] = {}
        self._had: Counter[str] = Counter()  # by tenant: tokens computed and tokens of answers
        self._waiting: dict[str, set[RequestId]] = {}  # by tenant: those that have never run; none is empty
        self._gaps: dict[tuple[str, str], tuple[int, int]] = {}  # least and most of a difference while both wait

    def come(self, new: NewRequest, now_s: float) -> None:
        """Count a request."""
        self._requests[new.request_id] = new
        self._waiting.setdefault(new.tenant, set()).add(new.request_id)
        self.longest_prompt = max(self.longest_prompt, len(new.prompt_token_ids))

    def see(self, step: SchedulerOutput, now_s: float) -> None:
        """Count a step."""
        self.num_steps += 1
        for new in step.added:
            self._wait_no_more(new)
        for part in step.scheduled:
            self._had[self._requests[part.request_id].tenant] += part.num_scheduled_tokens + step.repeat - 1
        self.most_waiting = max(self.most_waiting, sum(map(len, self._waiting.values())))
        self._compare_tenants()

    def take(self, output: RequestOutput, now_s: float) -> None:
        """Count an output."""
        new = self._requests[output.request_id]
        groups = self._find_groups(new)
        if output.token_ids:
            self._had[new.tenant] += len(output.token_ids)
            self._go_on(output, groups, now_s)
        if output.finish_reason is not None:
            reason = "late" if output.error_class == DeadlineExceeded.__name__ else output.finish_reason
            for group in groups:
                group.ends[reason] += 1
                group.num_prompt_tokens += len(new.prompt_token_ids)
                group.num_cached_tokens += output.num_cached_tokens
            self._wait_no_more(new)
            stream = self._streams.pop(output.request_id, None)
            if stream is not None:
                for group in groups:
                    group.go_on(stream)
            del self._requests[output.request_id]

    def make_rows(self, now_s: float) -> list[Row]:
        """A row for all, then one for each tenant and each priority if there are several."""
        rows = [self.all.make_row(now_s, what="all")]
        for kind in ("tenant", "priority"):
            names = sorted(which for each, which in self.by if each == kind)
            if len(names) > 1:
                rows += [self.by[kind, name].make_row(now_s, what=f"{kind} {name}") for name in names]
        return rows

    def _find_groups(self, new: NewRequest) -> list[Group]:
        return [
            self.all,
            self.by.setdefault(("tenant", new.tenant), Group()),
            self.by.setdefault(("priority", new.priority), Group()),
        ]

    def _go_on(self, output: RequestOutput, groups: list[Group], now_s: float) -> None:
        count = len(output.token_ids)
        stream = self._streams.get(output.request_id)
        for group in groups:
            group.num_output_tokens += count
            if stream is None:
                group.begin(output, now_s)
            elif stream.now_s != now_s:
                group.go_on(stream)
        if stream is None:
            self._streams[output.request_id] = Stream(now_s, count)
        elif stream.now_s == now_s:
            stream.count += count
        else:
            self._streams[output.request_id] = Stream(now_s, count, stream.now_s)

    def _wait_no_more(self, new: NewRequest) -> None:
        waiting = self._waiting.get(new.tenant)
        if waiting is not None:
            waiting.discard(new.request_id)
            if not waiting:
                del self._waiting[new.tenant]

    def _compare_tenants(self) -> None:
        """Follow the differences between tenants that both wait, each from when it began to be so."""
        gaps: dict[tuple[str, str], tuple[int, int]] = {}
        for pair in combinations(sorted(self._waiting), 2):
            ahead = self._had[pair[0]] - self._had[pair[1]]
            least, most = self._gaps.get(pair, (ahead, ahead))
            gaps[pair] = least, most = min(least, ahead), max(most, ahead)
            self.service_gap = max(self.service_gap, most - least)
        self._gaps = gaps
