"""Agents that begin with the same long text and then talk for several turns: what a prefix cache is there for.

Each agent is a thread with a conversation: the shared text as system message, a message of words of its own each turn,
and the server's answers as they came. So of a turn's prompt all but the newest message has been computed before, by
the agent itself or by another. All agents begin at once. Time to first token is what the client sees.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from pelton.bench.load import WORDS
from pelton.bench.load_summary import quantiles

Message = dict[str, str]
Ask = Callable[[list[Message], int], Iterator[dict[str, Any]]]  # a conversation and a limit -> chunks of the answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Talk:
    """What the agents do. Words are about a token each."""

    num_agents: int
    num_turns: int
    num_shared_words: int
    num_turn_words: int
    num_output_tokens: int
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One answer of the server to one agent."""

    turn: int
    ttft_s: float
    num_prompt_tokens: int
    num_cached_tokens: int
    text: str


def make_words(talk: Talk, agent: int, turn: int) -> str:
    """The message of an agent in a turn; -1, -1 is the shared text."""
    count = talk.num_shared_words if agent < 0 else talk.num_turn_words
    return " ".join(random.Random(f"{talk.seed} {agent} {turn}").choices(WORDS, k=count))


def run_agents(talk: Talk, ask: Ask, on_answer: Callable[[], None] = lambda: None) -> list[Turn]:
    """All turns of all agents, by agent and turn. Raises what `ask` raises, once every agent has ended."""
    ready = threading.Barrier(talk.num_agents)

    def run(agent: int) -> list[Turn]:
        ready.wait()
        return list(run_agent(talk, agent, ask, on_answer))

    with ThreadPoolExecutor(talk.num_agents) as pool:
        return [turn for turns in pool.map(run, range(talk.num_agents)) for turn in turns]


def run_agent(talk: Talk, agent: int, ask: Ask, on_answer: Callable[[], None]) -> Iterator[Turn]:
    """The turns of one agent."""
    messages: list[Message] = [{"role": "system", "content": make_words(talk, -1, -1)}]
    for turn in range(talk.num_turns):
        messages.append({"role": "user", "content": make_words(talk, agent, turn)})
        start_s = time.perf_counter()
        first_s: float | None = None
        pieces: list[str] = []
        usage: dict[str, Any] = {}
        for chunk in ask(messages, talk.num_output_tokens):
            for choice in chunk.get("choices", ()):
                piece = choice.get("delta", {}).get("content")
                if piece:
                    first_s = first_s or time.perf_counter()
                    pieces.append(piece)
            usage = chunk.get("usage") or usage
        text = "".join(pieces)
        messages.append({"role": "assistant", "content": text})
        on_answer()
        yield Turn(
            turn=turn,
            ttft_s=(first_s or time.perf_counter()) - start_s,
            num_prompt_tokens=usage["prompt_tokens"],
            num_cached_tokens=usage["prompt_tokens_details"]["cached_tokens"],
            text=text,
        )


def make_rows(turns: Sequence[Turn], **about: Any) -> list[dict[str, Any]]:
    """A row for the first turn, and one for all later ones, which have a past of their own."""
    rows = []
    for name, chosen in (("first", [t for t in turns if t.turn == 0]), ("later", [t for t in turns if t.turn > 0])):
        if chosen:
            num_prompt = sum(turn.num_prompt_tokens for turn in chosen)
            p50_s, p99_s = quantiles([turn.ttft_s for turn in chosen])
            rows.append({
                **about,
                "turns": name,
                "num_answers": len(chosen),
                "mean_prompt_tokens": num_prompt / len(chosen),
                "cached_share": sum(turn.num_cached_tokens for turn in chosen) / num_prompt,
                "ttft_p50_s": p50_s,
                "ttft_p99_s": p99_s,
            })  # fmt: skip
    return rows
