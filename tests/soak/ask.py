"""What a client of the soak asks for, and what the only right answer is."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any, Final, Literal

from pelton.api.text_engine import derive_seed
from pelton.oracle.chain import compute_answer

Manner = Literal["reads", "leaves", "dawdles"]
TENANTS: Final = {"ann": "key-of-ann", "bob": "key-of-bob", "cy": "key-of-cy"}
SALTS: Final = ("", "", "", "blue", "red")
ALPHABET: Final = "abcdefghijklmnopqrstuvwxyz ,."
PREFIXES: Final = tuple(
    "".join(random.Random(number).choices(ALPHABET, k=length)) for number, length in enumerate((60, 150, 400, 900))
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One request. `leaves_after` chunks its client goes, if its manner is to leave."""

    number: int
    prompt: str
    max_tokens: int
    n: int = 1
    seed: int | None = None  # None: greedy
    stop: str | None = None
    stream: bool = True
    tenant: str = "ann"
    salt: str = ""
    priority: int = 0
    timeout_ms: int = 0
    manner: Manner = "reads"
    leaves_after: int = 0
    expected: tuple[tuple[str, str], ...] = ()  # text and reason of each answer, where the oracle is not who says them

    def make_body(self) -> dict[str, Any]:
        """The JSON of the request."""
        body: dict[str, Any] = {
            "prompt": self.prompt,
            "max_tokens": self.max_tokens,
            "ignore_eos": True,
            "n": self.n,
            "temperature": 0.0 if self.seed is None else 1.0,
            "stream": self.stream,
            "priority": self.priority,
            "request_id": f"soak-{self.number}",
        }
        if self.stream:
            body["stream_options"] = {"include_usage": True}
        if self.seed is not None:
            body["seed"] = self.seed
        if self.stop is not None:
            body["stop"] = self.stop
        if self.salt:
            body["cache_salt"] = self.salt
        return body


def make_ask(number: int, draw: random.Random) -> Ask:
    """A request of a mix: short and long, alone and in company, patient and not."""
    prefix = draw.choice(PREFIXES)
    prompt = prefix[: draw.randint(1, len(prefix))] + f" #{draw.randint(0, 10**9)}" * draw.randint(0, 2)
    manner: Manner = draw.choices(("reads", "leaves", "dawdles"), (90, 8, 2))[0]
    return Ask(
        number=number,
        prompt=prompt,
        max_tokens=min(60 if manner == "dawdles" else 400, int(draw.expovariate(1 / 40)) + 1),
        n=draw.choices((1, 2, 4), (90, 7, 3))[0],
        seed=draw.randint(0, 2**31) if draw.random() < 0.4 else None,
        stop="".join(draw.choices(ALPHABET[:26], k=2)) if draw.random() < 0.2 else None,
        stream=manner == "dawdles" or draw.random() < 0.7,
        tenant=draw.choice(tuple(TENANTS)),
        salt=draw.choice(SALTS),
        priority=draw.choices((0, 1, -1), (90, 8, 2))[0],
        timeout_ms=draw.randint(200, 5000) if draw.random() < 0.05 else 0,
        manner=manner,
        leaves_after=draw.randint(0, 20),
    )


def compute_expected(ask: Ask) -> list[tuple[str, str]]:
    """Text and finish reason of each answer, when nothing comes in between."""
    if ask.expected:
        return list(ask.expected)
    answers = []
    for index in range(ask.n):
        seed = None if ask.seed is None else derive_seed(ask.seed, index)
        token_ids = compute_answer(
            ask.prompt.encode(), ask.max_tokens, tenant=ask.tenant, cache_salt=ask.salt, seed=seed
        )
        text = bytes(token_ids).decode()
        end = -1 if ask.stop is None else text.find(ask.stop)
        answers.append((text, "length") if end < 0 else (text[:end], "stop"))
    return answers
