"""A scheduler with a few requests on a few blocks, all that can happen to it, and what must be true whatever does.

The executor is an oracle: a slot holds the hash of all tokens up to its own, and the next token follows from what is
read back through the block table. A world can be copied, and has a key: two worlds with the same key behave the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from tests.exhaustive.clone import clone
from tests.exhaustive.oracle import choose, extend, get_chain
from tests.exhaustive.setting import EOS, Setting, Shape

from pelton.core.outputs import RequestOutput
from pelton.core.sampling_params import SamplingParams
from pelton.core.step import ModelRunnerOutput, NewRequest, RequestId, SampledToken, SchedulerOutput
from pelton.engine.request import Request, State
from pelton.engine.scheduler import Scheduler
from pelton.engine.victim import MAX_PREEMPTIONS
from pelton.engine.waiting import AGING_S, get_class
from pelton.errors import CapacityError, DeadlineExceeded
from pelton.kvcache.block_pool import BlockPool
from pelton.kvcache.prefix_tree import Salt

NO_TOKEN: Final = -1
PIN_SALT: Final = Salt("", "")
TICK_S: Final = AGING_S

Event = tuple[Any, ...]


class Violation(Exception):
    """Something happened that must never happen."""


class AnyPace:
    """In the place of a pace that learns: the search chooses."""

    def __init__(self) -> None:
        self.num_tokens = 0

    def choose(self, num_decoding: int, num_waiting: int) -> int:
        return self.num_tokens

    def learn(self, num_decoding: int, num_prompt_tokens: int, step_s: float) -> None:
        """Nothing."""


def number_of(request_id: RequestId) -> int:
    return int(request_id)


class World:
    """The scheduler, the memory of its executor, what has arrived and what was answered."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.scheduler = Scheduler(setting.limits, BlockPool(setting.num_blocks, setting.block_size))
        self.pace = AnyPace()
        self.scheduler.pace = self.pace  # type: ignore[assignment]
        self.slots = [0] * (setting.num_blocks * setting.block_size)
        self.rows: set[RequestId] = set()  # that the executor has
        self.shapes: list[int] = []  # of all that have arrived
        self.answers: dict[RequestId, list[int]] = {}  # of those that have not ended
        self.pending: SchedulerOutput | None = None  # a step that has begun
        self.num_ticks = 0
        self.num_pins = 0
        self.is_broken = False

    def clone(self) -> World:
        """A world that goes its own way."""
        made: World = clone(self, {})
        return made

    @property
    def now_s(self) -> float:
        return 1000.0 + TICK_S * self.num_ticks

    @property
    def live(self) -> dict[RequestId, Request]:
        return self.scheduler._live

    def events(self) -> Iterator[Event]:
        """All that can happen here."""
        setting = self.setting
        if self.is_broken:
            return
        if self.pending is not None:
            yield ("end",)
            yield from (("end", "bad", request_id) for request_id in self.find_choosing())
        elif self.scheduler.has_work:
            for budget in setting.budgets:
                yield ("begin" if setting.can_interrupt else "step", budget)
            if not setting.can_interrupt:
                yield from (("bad", request_id) for request_id in self.live)
        yield from (("abort", request_id) for request_id in self.live)
        if self.live:
            yield ("crash",)
        if len(self.shapes) < setting.num_requests and len(self.live) < setting.num_live:
            yield from (("arrive", index) for index in range(len(setting.shapes)))
        if self.num_ticks < setting.num_ticks and self.live:
            yield ("tick",)
        if setting.pinned and self.scheduler.cache.names.list_of("", self.now_s):
            yield ("unpin",)
        elif self.num_pins < setting.num_pins:
            yield ("pin",)

    def sights(self) -> Iterator[str]:
        """What is worth counting in this state, so that nobody searches where nothing happens."""
        for request in self.live.values():
            if request.state is State.WAITING and request.num_preemptions:
                yield f"preempted {request.num_preemptions}"
            if request.waits_for is not None:
                yield "parked"
            if request.lease is not None and request.lease.num_shared:
                yield "found"
        if self.pending is not None and self.pending.copies:
            yield "copied"
        if self.scheduler._parking and self.scheduler.cache.tree._woken:
            yield "woken"

    def find_choosing(self) -> Iterator[RequestId]:
        """Those for which the step that has begun chooses a token."""
        assert self.pending is not None
        for part in self.pending.scheduled:
            request = self.live.get(part.request_id)
            if request is not None and part.num_computed_tokens + part.num_scheduled_tokens == request.num_tokens:
                yield part.request_id

    def apply(self, event: Event) -> None:
        """Let something happen, and check what was answered."""
        kind = event[0]
        if kind == "step":
            self.begin(event[1])
            self.end()
        elif kind == "bad":
            self.begin(self.setting.budgets[-1])
            self.end(event[1])
        elif kind == "begin":
            self.begin(event[1])
        elif kind == "end":
            self.end(event[2] if len(event) > 1 else None)
        elif kind == "arrive":
            self.arrive(event[1])
        elif kind == "abort":
            self.scheduler.finish(event[1], "abort")
            self.take_outputs("abort")
        elif kind == "crash":
            self.scheduler.finish_all("error", error="it crashed")
            self.take_outputs("error")
            self.is_broken = True
            require(not self.scheduler.has_work, "requests live on in an engine that is broken")
            self.check()
        elif kind == "tick":
            self.num_ticks += 1
        else:
            self.pin(kind)

    def arrive(self, index: int) -> None:
        shape = self.setting.shapes[index]
        request_id = RequestId(str(len(self.shapes)))
        deadline_s = self.now_s + TICK_S * shape.patience if shape.patience else 0.0
        new = NewRequest(
            request_id=request_id,
            prompt_token_ids=shape.prompt,
            sampling=SamplingParams(max_tokens=shape.max_tokens, temperature=0.0),
            eos_token_ids=(EOS,) if shape.has_eos else (),
            priority=shape.priority,
            arrival_s=self.now_s,
            deadline_s=deadline_s,
            tenant=shape.tenant,
            cache_salt=shape.cache_salt,
        )
        self.shapes.append(index)
        self.answers[request_id] = []
        self.scheduler.add(new, self.now_s)

    def pin(self, kind: str) -> None:
        names = self.scheduler.cache.names
        if kind == "unpin":
            names.release("name", "")
        else:
            self.num_pins += 1
            try:
                names.pin("name", PIN_SALT, self.setting.pinned, None, self.now_s)
            except CapacityError as error:
                raise Violation(f"the setting pins more than may be pinned: {error}") from error

    def begin(self, budget: int) -> None:
        """Let the scheduler decide a step, and check its decision."""
        scheduler, limits = self.scheduler, self.setting.limits
        before = list(scheduler._running)
        self.pace.num_tokens = budget
        self.pending = step = scheduler.schedule(self.now_s)
        self.take_outputs("late")
        late = [request for request in self.live.values() if 0.0 < request.new.deadline_s <= self.now_s]
        require(not late, "a request lives on behind its deadline")
        counts = [part.num_scheduled_tokens for part in step.scheduled]
        if not scheduler.has_work and not counts:
            self.settle(step)
            self.pending = None
            return
        require(0 < sum(counts) <= limits.max_num_batched_tokens, "a step computes nothing, or more than it may")
        require(0 < min(counts) <= max(counts) <= limits.max_prefill_chunk, "a chunk is empty or too long")
        require(len(scheduler._running) <= limits.max_num_requests, "more run than may")
        require(step.repeat == 1 or not scheduler.num_waiting, "a step is repeated while somebody waits")
        alive = [request for request in before if request.request_id in self.live]
        require(not alive or alive[0].state is State.RUNNING, "the first running request gave way")
        require(all(r.num_preemptions <= MAX_PREEMPTIONS for r in self.live.values()), "one gave way too often")
        self.check_order(step)
        self.check_streams(step, before)

    def check_order(self, step: SchedulerOutput) -> None:
        """Nobody starts before another of the same tenant that comes first."""
        waiting = list(self.scheduler._waiting)
        started = [self.live[new.request_id] for new in step.added]
        parked = [request for request in self.live.values() if request.waits_for is not None]
        for index, first in enumerate(started):
            # Who is parked may have been so before `first` started, or not.
            tops = {min(get_class(request) for request in (*started[index:], *waiting, *more)) for more in ((), parked)}
            for other in waiting:
                if other.new.tenant == first.new.tenant:
                    is_right = any(self.rank(first, top) < self.rank(other, top) for top in tops)
                    require(is_right, "a request overtook another in the queue")

    def rank(self, request: Request, top: int) -> tuple[int, int]:
        """Its place in the queue of a tenant, if the first class of those that wait is `top`."""
        return max(top, get_class(request) - int((self.now_s - request.arrival_s) / AGING_S)), request.order[1]

    def check_streams(self, step: SchedulerOutput, before: list[Request]) -> None:
        """Who only extends itself gets its token in every step, unless there is no memory for it."""
        scheduled = {part.request_id for part in step.scheduled}
        for request in before:
            if request.state is State.RUNNING and request.request_id not in scheduled:
                has_room = len(request.block_ids) * self.setting.block_size > request.num_computed_tokens
                is_alone = request.num_uncomputed_tokens == 1
                require(not (is_alone and has_room), "a stream pauses though it has memory")

    def settle(self, step: SchedulerOutput) -> None:
        """What the executor does before it computes: rows and copies."""
        for request_id in step.finished:
            require(request_id in self.rows, "a row is freed that nobody has")
            self.rows.remove(request_id)
        size = self.setting.block_size
        for copy in step.copies:
            require(copy.source != copy.target, "a block is copied to itself")
            self.slots[copy.target * size : (copy.target + 1) * size] = self.slots[
                copy.source * size : (copy.source + 1) * size
            ]
        for new in step.added:
            require(new.request_id not in self.rows, "a row is taken twice")
            self.rows.add(new.request_id)
        require(len(self.rows) <= self.setting.max_num_requests, "more rows than there are")

    def end(self, bad: RequestId | None = None) -> None:
        """Compute the step that has begun and tell the scheduler. If `bad` chooses a token, it is none."""
        step, self.pending = self.pending, None
        if step is None:
            return
        self.settle(step)
        tokens = {r: list(self.live[r].tokens) for r in (part.request_id for part in step.scheduled) if r in self.live}
        sampled = []
        for number in range(step.repeat):
            for part in step.scheduled:
                if part.request_id not in tokens:  # it ended after the step had begun
                    continue
                request, known = self.live[part.request_id], tokens[part.request_id]
                start = part.num_computed_tokens if number == 0 else len(known) - 1
                end = start + (part.num_scheduled_tokens if number == 0 else 1)
                last = self.write(request, part.block_ids, known, range(start, end))
                if end == len(known):
                    if part.request_id == bad:
                        self.spoil(part.block_ids, range(start, end))
                    token_id = choose(last) if part.request_id != bad else NO_TOKEN
                    known.append(max(token_id, 0))
                    sampled.append(SampledToken(part.request_id, token_id))
        self.scheduler.update(step, ModelRunnerOutput(step=step.step, sampled=tuple(sampled)), self.now_s)
        self.take_outputs("bad" if bad is not None else "")

    def write(self, request: Request, block_ids: tuple[int, ...], known: list[int], positions: range) -> int:
        """Fill the slots of `positions`, reading what is before; the last hash."""
        size, new = self.setting.block_size, request.new
        for position in positions:
            slot = block_ids[position // size] * size + position % size
            before = position - 1
            chain = get_chain(new.tenant, new.cache_salt, ())
            if position:
                chain = self.slots[block_ids[before // size] * size + before % size]
            self.slots[slot] = extend(chain, known[position])
        last = positions[-1]
        return self.slots[block_ids[last // size] * size + last % size]

    def spoil(self, block_ids: tuple[int, ...], positions: range) -> None:
        """Let these slots hold what they should not."""
        size = self.setting.block_size
        for position in positions:
            self.slots[block_ids[position // size] * size + position % size] = NO_TOKEN

    def take_outputs(self, cause: str) -> None:
        """Check what the scheduler answered: the oracle's tokens, and one end."""
        for output in self.scheduler.take_outputs():
            answer = self.answers.get(output.request_id)
            require(answer is not None, "an answer after the end, or to nobody")
            assert answer is not None
            shape = self.setting.shapes[self.shapes[number_of(output.request_id)]]
            for token_id in output.token_ids:
                expected = choose(get_chain(shape.tenant, shape.cache_salt, (*shape.prompt, *answer)))
                require(token_id == expected, f"token {token_id}, expected {expected}")
                answer.append(token_id)
            if output.finish_reason is not None:
                self.check_end(output, shape, answer, cause)
                del self.answers[output.request_id]
        require(self.answers.keys() == self.live.keys(), "a request ended without an answer")

    def check_end(self, output: RequestOutput, shape: Shape, answer: list[int], cause: str) -> None:
        reason = output.finish_reason
        room = self.setting.limits.max_model_len - len(shape.prompt)
        if reason == "length":
            require(len(answer) == min(shape.max_tokens, room), "an answer of the wrong length")
        elif reason == "stop":
            require(shape.has_eos and answer[-1] == EOS, "a stop without a stop token")
        elif reason == "abort":
            require(cause == "abort", "an abort that nobody wanted")
        elif output.error_class == DeadlineExceeded.__name__:
            require(shape.patience > 0 and cause == "late", "a deadline that has not passed")
        else:
            require(cause in ("bad", "error"), f"an error that nobody made: {output.error}")

    def check(self) -> None:
        """Raise if blocks, queues, memory and tree contradict each other."""
        scheduler, size = self.scheduler, self.setting.block_size
        scheduler.check()
        if not scheduler.has_work:
            num_held = len(set(scheduler.cache.names.get_held_blocks()))
            require(scheduler.pool.num_free == self.setting.num_blocks - num_held, "nobody lives, and blocks are held")
        if self.pending is not None:
            return  # what it copies and computes is not there yet
        for request in scheduler._running:
            for position in range(request.num_computed_tokens):
                slot = request.block_ids[position // size] * size + position % size
                expected = get_chain(request.new.tenant, request.new.cache_salt, tuple(request.tokens[: position + 1]))
                require(self.slots[slot] == expected, "a slot does not hold what was computed")
        for salt, root in scheduler.cache.tree._roots.items():
            self.check_nodes(salt, root, ())

    def check_nodes(self, salt: Salt, node: Any, before: tuple[int, ...]) -> None:
        for key, child in node.children.items():
            if child.is_computed:
                path = (*before, *memoryview(key).cast("i"))
                first = child.block_id * self.setting.block_size
                for index in range(self.setting.block_size):
                    expected = get_chain(salt.tenant, salt.cache_salt, path[: len(before) + index + 1])
                    require(self.slots[first + index] == expected, "the cache does not hold what it says")
                self.check_nodes(salt, child, path)


def require(is_true: bool, what: str) -> None:
    """Raise Violation unless it is true."""
    if not is_true:
        raise Violation(what)
