"""Conversations of agents against a server that is a function."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from pelton.bench.agents import Message, Talk, Turn, make_rows, make_words, run_agents
from pelton.errors import TransferError

pytestmark = pytest.mark.unit
TALK = Talk(num_agents=3, num_turns=4, num_shared_words=20, num_turn_words=5, num_output_tokens=7, seed=2)


def count_words(messages: list[Message]) -> int:
    return sum(len(message["content"].split()) for message in messages)


class Server:
    """Answers with the number of words it was sent; knows everything but the newest message."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.asked: list[list[Message]] = []

    def ask(self, messages: list[Message], num_output_tokens: int) -> Iterator[dict[str, Any]]:
        assert num_output_tokens == 7
        with self.lock:
            self.asked.append([dict(message) for message in messages])
        yield {"choices": [{"delta": {"role": "assistant", "content": ""}}]}
        yield {"choices": [{"delta": {"content": str(count_words(messages))}}], "usage": None}
        usage = {
            "prompt_tokens": count_words(messages),
            "prompt_tokens_details": {"cached_tokens": count_words(messages[:-1])},
        }
        yield {"choices": [], "usage": usage}


def test_all_begin_alike_and_go_on_with_what_they_were_answered() -> None:
    server, answered = Server(), []
    turns = run_agents(TALK, server.ask, lambda: answered.append(None))
    assert len(answered) == len(turns) == len(server.asked) == 12
    assert {messages[0]["content"] for messages in server.asked} == {make_words(TALK, -1, -1)}
    assert len({messages[1]["content"] for messages in server.asked}) == 3
    longest = max(server.asked, key=len)
    assert [message["role"] for message in longest] == ["system", *["user", "assistant"] * 3, "user"]
    assert [message["content"] for message in longest[2::2]] == ["25", "31", "37"]
    assert [turn.turn for turn in turns] == [0, 1, 2, 3] * 3
    assert [turn.num_prompt_tokens for turn in turns] == [25, 31, 37, 43] * 3
    assert all(turn.ttft_s >= 0 for turn in turns)


def test_rows_tell_first_turns_from_later_ones() -> None:
    rows = make_rows(run_agents(TALK, Server().ask), prefix_cache=True)
    assert [(row["turns"], row["num_answers"]) for row in rows] == [("first", 3), ("later", 9)]
    assert rows[0]["cached_share"] == 20 / 25
    assert rows[1]["cached_share"] == (26 + 32 + 38) / (31 + 37 + 43)
    assert rows[1]["mean_prompt_tokens"] == 37
    turn = Turn(turn=0, ttft_s=1.0, num_prompt_tokens=4, num_cached_tokens=1, text="")
    assert [row["turns"] for row in make_rows([turn])] == ["first"]


def test_words_repeat_with_the_seed_and_differ_between_agents() -> None:
    assert make_words(TALK, 0, 1) == make_words(TALK, 0, 1) != make_words(TALK, 1, 0)
    assert len(make_words(TALK, -1, -1).split()) == 20


def test_an_error_ends_the_measurement() -> None:
    def ask(messages: list[Message], num_output_tokens: int) -> Iterator[dict[str, Any]]:
        raise TransferError("gone")
        yield {}

    with pytest.raises(TransferError, match="gone"):
        run_agents(TALK, ask)
