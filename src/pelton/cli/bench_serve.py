"""`pelton bench serve`: latency and speed of a server under concurrent streams."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click

from pelton.api.progress import ProgressBar
from pelton.bench.load import Generator, Load, Target
from pelton.bench.load_summary import LoadSummary, make_row, summarize
from pelton.bench.served_model import ServedModel, serve_model
from pelton.cli.bench_output import Output, output_options
from pelton.cli.http_client import ServerClient
from pelton.cli.number_list import parse_counts
from pelton.cli.options import config_options, get_model
from pelton.config.user_config import UserConfig
from pelton.errors import ConfigError

COUNT = click.IntRange(min=1)


@click.command("serve")
@config_options("model", "cache", "scheduler", "runner")
@click.option(
    "--url", help="A server that runs already, of any engine.  [default: MODEL is served for the measurement]"
)
@click.option("--api-key", help="The key of that server.")
@click.option("--chat/--no-chat", default=True, show_default=True, help="Chats, or completions of a text.")
@click.option("--batch", default="1,8,32", show_default=True, help="Numbers of users at a time, with commas between.")
@click.option("--rate", type=click.FloatRange(min=0.001), help="Requests a second at Poisson times, in place of users.")
@click.option("--requests", type=COUNT, help="Requests of each load.  [default: two for each user, 32 with --rate]")
@click.option("--prompt", default=128, type=COUNT, show_default=True, help="Words of each prompt, about a token each.")
@click.option("--output", default=128, type=COUNT, show_default=True, help="Tokens of each answer.")
@output_options
def load(
    asked: UserConfig,
    *,
    url: str | None,
    api_key: str | None,
    chat: bool,
    batch: str,
    rate: float | None,
    requests: int | None,
    prompt: int,
    output: int,
    markdown: bool,
    save: Path | None,
) -> None:
    """Stream many answers at once from MODEL or from a server: TTFT, inter-token latency, E2E, tokens per second."""
    users = [None] if rate is not None else parse_counts("--batch", batch)
    loads = [
        Load(
            concurrency=count or 0,
            num_requests=requests or (2 * count if count else 32),
            num_prompt_words=prompt,
            num_output_tokens=output,
            rate=rate,
            seed=int(asked.get("seed")) + number,
        )
        for number, count in enumerate(users)
    ]
    if url is None:
        get_model(asked)
    serving = serve_model({name: asked.get(name) for name in asked}) if url is None else nullcontext(None)
    with Output("serve", markdown=markdown, save=save) as rows, serving as served:
        target = make_target(url or (served.url if served else ""), "chat" if chat else "completion", api_key)
        warm_up(target)
        total = sum(each.num_requests for each in loads)
        with ProgressBar("answers", total) as bar:
            for each in loads:
                rows.add(run_load(target, each, served, bar))


def make_target(url: str, kind: str, api_key: str | None) -> Target:
    """Where requests go; asks the server for its model. Plain HTTP only: the measurement is not of encryption."""
    parts = urlsplit(url if "://" in url else f"http://{url}")
    if parts.scheme != "http" or not parts.hostname:
        raise ConfigError(f"--url: {url!r} is not an address like http://127.0.0.1:8000. Only plain HTTP is measured.")
    model = ServerClient(url, api_key).get_model()
    base = parts.path.rstrip("/").removesuffix("/v1")
    return Target(host=parts.hostname, port=parts.port or 80, model=model, kind=kind, base=base, api_key=api_key)


def warm_up(target: Target) -> None:
    """One short answer, so that nothing is measured that happens once. Raises ConfigError if there is none."""
    answers = Generator(target, Load(concurrency=1, num_requests=1, num_prompt_words=8, num_output_tokens=4)).run()
    if answers[0].error is not None:
        raise ConfigError(f"{target.host}:{target.port}: a first request failed ({answers[0].error}).")


def run_load(target: Target, load: Load, served: ServedModel | None, bar: ProgressBar) -> dict[str, Any]:
    """The row of one load."""
    before = served.read_cpu_s() if served else None
    answers = Generator(target, load, on_answer=bar.advance).run()
    after = served.read_cpu_s() if served else None
    summary = summarize(answers, None if load.rate is not None else load.concurrency)
    about: dict[str, Any] = {"kind": target.kind, "model": target.model}
    about |= {"rate": load.rate} if load.rate is not None else {"concurrency": load.concurrency}
    return {**make_row(summary, **about), **compute_cost(summary, before, after)}


def compute_cost(
    summary: LoadSummary, before: tuple[float, float] | None, after: tuple[float, float] | None
) -> dict[str, Any]:
    """CPU time of the server process, and of the engine, for each output token."""
    num_tokens = summary.mean_output_tokens * summary.num_answers
    if before is None or after is None or not num_tokens:
        return {}
    server_s, engine_s = (late - early for late, early in zip(after, before, strict=True))
    return {
        "server_cpu_us_per_token": 1e6 * server_s / num_tokens,
        "engine_cpu_us_per_token": 1e6 * engine_s / num_tokens,
    }
