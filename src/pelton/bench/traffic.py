"""Days of traffic, made up from a seed or read from a file, in order and one request at a time.

A token's id is the beginning of its conversation plus its place, and so is what a simulated engine answers
(simulation.py): a later turn begins with all that was said before, and finds it in the prefix cache. What all requests
of a source begin with has ids of its own. A day has hours with three times the load of others.
"""

from __future__ import annotations

import heapq
import json
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from pathlib import Path
from typing import Any, Final

import msgspec

from pelton.bench.simulation import Arrival
from pelton.core.sampling_params import SamplingParams
from pelton.core.step import NewRequest, RequestId
from pelton.errors import ConfigError

VOCAB_SIZE: Final = 2**31 - 1
MAX_SHARED: Final = 1 << 16  # tokens that all requests of a source begin with
FIRST_ID: Final = 1 << 22  # of conversations; what sources share is below
LONGEST: Final = 1 << 15  # tokens of a conversation before its ids run into the next one's
DAY_S: Final = 86_400.0
FIELDS: Final = {
    "at_s": float, "prompt_tokens": int, "output_tokens": int, "tenant": str, "priority": int, "timeout_s": float,
    "leaves_s": float, "session": str, "shared_tokens": int,
}  # fmt: skip
NEEDED: Final = ("at_s", "prompt_tokens", "output_tokens")


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """A request: when, how long, and of which conversation."""

    at_s: float
    session: int
    num_prompt_tokens: int
    num_output_tokens: int
    num_shared: int = 0
    source: int = 0
    tenant: str = ""
    priority: int = 0
    timeout_s: float = 0.0  # 0: none
    leaves_s: float | None = None  # when its client leaves


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Those who use the server in the same way. Ranges are drawn from evenly in their logarithm."""

    tenant: str
    weight: float  # of all conversations
    first: tuple[int, int]  # tokens of the first message of a conversation
    message: tuple[int, int] = (10, 200)  # of each further one
    output: tuple[int, int] = (10, 300)
    turns: tuple[int, int] = (1, 1)
    pause_s: tuple[float, float] = (5.0, 60.0)  # between turns
    group: int = 1  # conversations that begin at once
    num_shared: int = 0  # tokens that all begin with
    priority: int = 0
    timeout_s: float = 0.0
    leave_share: float = 0.0


CHAT: Final = Source(
    tenant="chat", weight=1.0, first=(20, 400), turns=(1, 6), num_shared=300, leave_share=0.05, timeout_s=120.0
)
DOCUMENTS: Final = Source(tenant="documents", weight=1.0, first=(1500, 12_000), output=(20, 300), priority=1)
AGENTS: Final = Source(
    tenant="agents", weight=1.0, first=(50, 400), message=(50, 600), output=(20, 200), turns=(4, 12),
    pause_s=(1.0, 10.0), group=8, num_shared=1500,
)  # fmt: skip
BURST: Final = Source(tenant="burst", weight=1.0, first=(20, 400), group=60)
FLOOD: Final = Source(tenant="flood", weight=50.0, first=(20, 400))
POLITE: Final = Source(tenant="polite", weight=1.0, first=(20, 400))

KINDS: Final[dict[str, tuple[Source, ...]]] = {
    "chat": (CHAT,),
    "documents": (DOCUMENTS,),
    "agents": (AGENTS,),
    "burst": (BURST,),
    "flood": (FLOOD, POLITE),
    "mixed": (
        CHAT,
        Source(tenant="documents", weight=0.1, first=DOCUMENTS.first, output=(20, 300), priority=1),
        AGENTS,
    ),
}


def make_day(kind: str, *, rate: float, hours: float, seed: int = 0) -> Iterator[Arrival]:
    """Traffic of a kind: `rate` requests a second on average, over so many hours of a day."""
    sources = KINDS[kind]
    total = sum(source.weight for source in sources)
    turns = [
        draw_turns(source, number, rate * source.weight / total, hours * 3600.0, random.Random(f"{seed} {number}"))
        for number, source in enumerate(sources)
    ]
    return make_arrivals(heapq.merge(*turns, key=attrgetter("at_s")))


def draw_turns(source: Source, number: int, rate: float, duration_s: float, draw: random.Random) -> Iterator[Turn]:
    """The requests of a source, in order."""
    mean_turns = sum(source.turns) / 2
    starts_per_s = rate / (mean_turns * source.group)
    coming: list[tuple[float, int, Turn]] = []  # with a number, because turns have no order
    at_s, session, num_drawn = 0.0, number, 0
    while True:
        at_s += draw.expovariate(2.0 * starts_per_s)
        if draw.random() * 2.0 > compute_load(at_s):
            continue  # fewer come at this hour
        while coming and (coming[0][0] <= at_s or at_s >= duration_s):
            yield heapq.heappop(coming)[2]
        if at_s >= duration_s:
            return
        for _ in range(source.group):
            session += len(KINDS["mixed"])  # so that sources have conversations of their own
            for turn in draw_conversation(source, number, session, at_s, draw):
                num_drawn += 1
                heapq.heappush(coming, (turn.at_s, num_drawn, turn))


def draw_conversation(source: Source, number: int, session: int, at_s: float, draw: random.Random) -> Iterator[Turn]:
    """A first message, and what is said when its answer has been read."""
    num_prompt = source.num_shared + draw_size(draw, source.first)
    for _ in range(draw.randint(*source.turns)):
        num_output = draw_size(draw, source.output)
        yield Turn(
            at_s=at_s,
            session=session,
            num_prompt_tokens=num_prompt,
            num_output_tokens=num_output,
            num_shared=source.num_shared,
            source=number,
            tenant=source.tenant,
            priority=source.priority,
            timeout_s=source.timeout_s,
            leaves_s=at_s + draw.uniform(0.0, 20.0) if draw.random() < source.leave_share else None,
        )
        at_s += draw.uniform(*source.pause_s)
        num_prompt += num_output + draw_size(draw, source.message)


def draw_size(draw: random.Random, limits: tuple[int, int]) -> int:
    """As likely between 10 and 100 as between 100 and 1000."""
    return round(math.exp(draw.uniform(math.log(limits[0]), math.log(limits[1]))))


def compute_load(at_s: float) -> float:
    """The load of an hour, 1 on average and at the beginning, 1.5 six hours later and 0.5 after eighteen."""
    return 1.0 + 0.5 * math.sin(2.0 * math.pi * at_s / DAY_S)


def read_day(path: Path) -> Iterator[Arrival]:
    """The requests of a file of JSON lines: FIELDS, of which NEEDED must be there. Raises ConfigError.

    Requests of one `session` are one conversation; `shared_tokens` are the beginning that all of a tenant have.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"--replay: {path} cannot be read ({error}). Give a file of JSON lines.") from None
    sessions: dict[str, int] = {}
    tenants: dict[str, int] = {}
    turns = [
        make_turn(check_line(line, f"{path}:{number}"), number, sessions, tenants)
        for number, line in enumerate(lines, 1)
        if line.strip()
    ]
    return make_arrivals(iter(sorted(turns, key=attrgetter("at_s"))))


def check_line(line: str, where: str) -> dict[str, Any]:
    """The fields of a line; ConfigError if it is none."""
    try:
        fields = json.loads(line)
        checked = {name: FIELDS[name](value) for name, value in fields.items()}
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError) as error:
        raise ConfigError(f"{where}: no request ({error}). A line is an object with {', '.join(FIELDS)}.") from None
    for name in NEEDED:
        if name not in checked:
            raise ConfigError(f"{where}: {name} is missing. Every request has {', '.join(NEEDED)}.")
    numbers = [value for value in checked.values() if not isinstance(value, str)]
    if not all(map(math.isfinite, numbers)) or checked["prompt_tokens"] < 1 or checked["output_tokens"] < 1:
        raise ConfigError(f"{where}: give numbers, and at least one token of prompt and output.")
    return checked


def make_turn(fields: dict[str, Any], number: int, sessions: dict[str, int], tenants: dict[str, int]) -> Turn:
    """The request of a line; conversations and tenants are numbered as they come."""
    session, tenant = fields.get("session", f"line {number}"), fields.get("tenant", "")
    return Turn(
        at_s=fields["at_s"],
        session=sessions.setdefault(session, len(sessions)),
        num_prompt_tokens=fields["prompt_tokens"],
        num_output_tokens=fields["output_tokens"],
        num_shared=min(max(0, fields.get("shared_tokens", 0)), fields["prompt_tokens"] - 1),
        source=tenants.setdefault(tenant, len(tenants)),
        tenant=tenant,
        priority=fields.get("priority", 0),
        timeout_s=fields.get("timeout_s", 0.0),
        leaves_s=fields.get("leaves_s"),
    )


def make_arrivals(turns: Iterator[Turn]) -> Iterator[Arrival]:
    """Requests of these sizes."""
    for number, turn in enumerate(turns):
        request = NewRequest(
            request_id=RequestId(str(number)),
            prompt_token_ids=make_prompt(turn),
            sampling=SamplingParams(max_tokens=turn.num_output_tokens, temperature=0.0, ignore_eos=True),
            priority=turn.priority,
            arrival_s=turn.at_s,
            deadline_s=turn.at_s + turn.timeout_s if turn.timeout_s > 0.0 else 0.0,
            tenant=turn.tenant,
        )
        yield Arrival(turn.at_s, request, turn.leaves_s)


def make_prompt(turn: Turn) -> tuple[int, ...]:
    """Ids that follow each other, but for what is shared."""
    num_shared = min(turn.num_shared, MAX_SHARED)
    shared = turn.source % (FIRST_ID // MAX_SHARED) * MAX_SHARED
    start = FIRST_ID + turn.session % ((VOCAB_SIZE - FIRST_ID) // LONGEST - 1) * LONGEST
    return (*range(shared, shared + num_shared), *range(start + num_shared, start + turn.num_prompt_tokens))


def forget_priorities(arrivals: Iterator[Arrival]) -> Iterator[Arrival]:
    """The same requests, all equally important."""
    for arrival in arrivals:
        yield replace(arrival, request=msgspec.structs.replace(arrival.request, priority=0))


def get_kinds() -> Sequence[str]:
    """The names of what can be made up."""
    return tuple(KINDS)
