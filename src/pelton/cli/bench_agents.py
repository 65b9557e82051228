"""`pelton bench agents`: what the prefix cache gives agents that share a long beginning."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from pelton.api.progress import ProgressBar
from pelton.bench.agents import Message, Talk, Turn, make_rows, run_agents
from pelton.bench.served_model import serve_model
from pelton.cli.bench_output import Output, output_options
from pelton.cli.http_client import ServerClient
from pelton.cli.options import config_options, get_model
from pelton.config.user_config import UserConfig

COUNT = click.IntRange(min=1)
CACHE = "enable_prefix_caching"


@click.command("agents")
@config_options("model", "cache", "scheduler", "runner")
@click.option("--agents", default=16, type=COUNT, show_default=True, help="Conversations at the same time.")
@click.option("--turns", default=6, type=COUNT, show_default=True, help="Questions of each agent.")
@click.option("--shared", default=1500, type=COUNT, show_default=True, help="Words that all begin with.")
@click.option("--question", default=40, type=COUNT, show_default=True, help="Words of each question.")
@click.option("--output", default=32, type=COUNT, show_default=True, help="Tokens of each answer.")
@output_options
def agents(asked: UserConfig, *, markdown: bool, save: Path | None, **counts: int) -> None:
    """TTFT and cached tokens of MODEL's agents with the prefix cache and without, and whether their answers differ."""
    get_model(asked)
    settings = {name: asked.get(name) for name in asked}
    talk = Talk(
        num_agents=counts["agents"],
        num_turns=counts["turns"],
        num_shared_words=counts["shared"],
        num_turn_words=counts["question"],
        num_output_tokens=counts["output"],
        seed=int(asked.get("seed")),
    )
    ways = [bool(settings[CACHE])] if CACHE in settings else [True, False]
    answers: list[list[str]] = []
    with (
        Output("agents", markdown=markdown, save=save) as rows,
        ProgressBar("answers", len(ways) * talk.num_agents * talk.num_turns) as bar,
    ):
        for is_on in ways:
            turns = measure({**settings, CACHE: is_on}, talk, bar)
            answers.append([turn.text for turn in turns])
            same: dict[str, Any] = {} if len(answers) < len(ways) or len(ways) == 1 else {
                "same_answers": answers[0] == answers[1]
            }  # fmt: skip
            for row in make_rows(turns, prefix_cache=is_on, agents=talk.num_agents):
                rows.add({**row, **same})


def measure(settings: dict[str, Any], talk: Talk, bar: ProgressBar) -> list[Turn]:
    """The turns of all agents on a server with these settings."""
    with serve_model(settings) as served:
        client = ServerClient(served.url)
        model = client.get_model()

        def ask(messages: list[Message], num_output_tokens: int) -> Iterator[dict[str, Any]]:
            body = {
                "model": model,
                "messages": messages,
                "max_tokens": num_output_tokens,
                "temperature": 0,
                "stream_options": {"include_usage": True},
            }
            return client.stream("/v1/chat/completions", body)

        list(ask([{"role": "user", "content": "time"}], 4))  # nothing is measured that happens once
        return run_agents(talk, ask, bar.advance)
