"""`pelton bench offline`: prefill and decode speed of the whole engine, without HTTP."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from pelton import __version__
from pelton.api.assemble import make_measured_loop, open_model
from pelton.api.progress import ProgressBar
from pelton.bench.offline import Workload, count_runs, measure_offline
from pelton.bench.step_profile import profile_offline
from pelton.cli.bench_output import Output, output_options
from pelton.cli.number_list import parse_counts
from pelton.cli.options import config_options, get_model
from pelton.config.user_config import UserConfig
from pelton.errors import ConfigError

COUNT = click.IntRange(min=1)
# Settings of text, of sampling and of queues, which random token ids in one batch make no use of.
UNUSED = ("served_model_name", "chat_template", "generation_config", "seed", "scheduling_policy")


@click.command()
@config_options("model", "cache", "scheduler", "runner", without=UNUSED)
@click.option("--batch", default="1,8,32", show_default=True, help="Numbers of requests, with commas between.")
@click.option("--prompt", default=128, type=COUNT, show_default=True, help="Prompt tokens of each request.")
@click.option(
    "--output", default=64, type=COUNT, show_default=True, help="Tokens of each request decoded after the first."
)
@click.option(
    "--depth",
    default=0,
    type=click.IntRange(min=0),
    show_default=True,
    help="Decode with so many tokens in the context already, in place of --prompt; their prefill is not timed.",
)
@click.option(
    "--shared-prefix",
    default=0,
    type=click.IntRange(min=0),
    show_default=True,
    help="Leading tokens that all prompts have in common.",
)
@click.option("--repeat", default=3, type=COUNT, show_default=True, help="Runs of each kind; the best counts.")
@click.option("--profile", is_flag=True, help="One more run: where the time of a step goes, one line for each part.")
@output_options
def offline(
    *,
    asked: UserConfig,
    batch: str,
    prompt: int,
    output: int,
    depth: int,
    shared_prefix: int,
    repeat: int,
    profile: bool,
    markdown: bool,
    save: Path | None,
) -> None:
    """Prefill and decode speed of MODEL without HTTP, one JSON line per batch size."""
    get_model(asked)
    workloads = [
        Workload(batch=size, prompt_tokens=prompt, output_tokens=output, depth=depth, shared_prefix=shared_prefix)
        for size in parse_counts("--batch", batch)
    ]
    check_prefix(workloads[0])
    opened = open_model(asked)
    named = {"engine": "pelton", "version": __version__, "model": opened.config.model.model}
    vocab_size = opened.checkpoint.spec.vocab_size
    num_threads = opened.config.runner.num_threads
    with Output("offline", markdown=markdown, save=save, num_threads=num_threads) as results:
        engine, executable = make_measured_loop(opened.checkpoint, opened.config, lambda _stage, _fraction: None)
        try:
            with ProgressBar("runs", sum(count_runs(workload, repeat) for workload in workloads)) as bar:
                for workload in workloads:
                    speed = measure_offline(engine, workload, repeat=repeat, vocab_size=vocab_size, on_run=bar.advance)
                    results.add({**named, **asdict(speed)})
            for workload in workloads if profile else ():
                for phase in profile_offline(engine, executable, workload, vocab_size=vocab_size):
                    for row in phase.make_rows(workload.batch):
                        results.add(row)
        finally:
            engine.close()


def check_prefix(workload: Workload) -> None:
    """Raise ConfigError if the prompts are shorter than what they share."""
    if workload.shared_prefix > workload.num_context_tokens:
        raise ConfigError(
            f"--shared-prefix: {workload.shared_prefix} tokens are more than the {workload.num_context_tokens} of a "
            "prompt. Lower it, or raise --prompt or --depth."
        )
