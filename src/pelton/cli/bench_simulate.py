"""`pelton bench simulate`: days of traffic through the scheduler, without a model and without waiting for them."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from pelton.bench.simulation import Cost, Simulation
from pelton.bench.simulation_summary import Summary
from pelton.bench.traffic import VOCAB_SIZE, forget_priorities, get_kinds, make_day, read_day
from pelton.cli.bench_output import Output, output_options
from pelton.cli.options import config_options
from pelton.config.user_config import UserConfig
from pelton.engine.limits import SchedulerLimits
from pelton.engine.scheduler import Scheduler
from pelton.kvcache.block_pool import BlockPool

MAX_REPEAT = 4
UNUSED = (
    "chat_template", "dtype", "exact", "generation_config", "kv_cache_dtype", "kv_cache_memory_bytes",
    "named_prefix_share", "served_model_name", "wide_activations", "weight_cache", "weight_cache_bytes",
)  # fmt: skip
DEFAULTS = {
    "block_size": 32,
    "max_model_len": 16_384,
    "max_num_batched_tokens": 512,
    "max_num_requests": 32,
    "max_prefill_chunk": 128,
}


@click.command("simulate")
@config_options("model", "cache", "scheduler", model=False, without=UNUSED)
@click.option("--traffic", type=click.Choice(get_kinds()), default="mixed", show_default=True, help="Made up requests.")
@click.option("--replay", type=click.Path(path_type=Path), help="Requests of a file of JSON lines, in their place.")
@click.option("--hours", type=click.FloatRange(min=0.001), default=1.0, show_default=True, help="How long they come.")
@click.option("--rate", type=click.FloatRange(min=0.001), default=1.0, show_default=True, help="Requests a second.")
@click.option("--blocks", type=click.IntRange(min=1), default=4096, show_default=True, help="KV blocks in the pool.")
@click.option(
    "--cost",
    default="step_ms=8,token_us=1400,prompt_us=1200",
    show_default=True,
    help="What a step takes, by its tokens.",
)
@output_options
def simulate(
    asked: UserConfig,
    *,
    traffic: str,
    replay: Path | None,
    hours: float,
    rate: float,
    blocks: int,
    cost: str,
    markdown: bool,
    save: Path | None,
) -> None:
    """TTFT, inter-token latency, queueing, fairness and preemptions of a day of requests, on a clock that is not real.

    Priorities count with --scheduling-policy priority only.
    """
    is_fcfs = asked.get("scheduling_policy") == "fcfs"
    day = read_day(replay) if replay is not None else make_day(traffic, rate=rate, hours=hours, seed=asked.get("seed"))
    scheduler = make_scheduler(asked, blocks)
    summary = Summary()
    simulation = Simulation(scheduler, forget_priorities(day) if is_fcfs else day, Cost.parse(cost), summary)
    with Output("simulate", markdown=markdown, save=save, num_threads=1) as output:
        started_s = time.process_time()
        for _ in simulation.steps():
            pass
        took_s = time.process_time() - started_s
        scheduler.check()
        for row in summary.make_rows(simulation.now_s):
            output.add(row)
        output.add(make_totals(simulation, summary, took_s))


def make_scheduler(asked: UserConfig, num_blocks: int) -> Scheduler:
    """The engine's own, with what was asked for."""
    sizes = {name: int(asked.get(name)) if name in asked else default for name, default in DEFAULTS.items()}
    block_size = sizes.pop("block_size")
    sizes["max_num_batched_tokens"] = max(sizes["max_num_batched_tokens"], sizes["max_num_requests"])
    limits = SchedulerLimits(
        **sizes,
        vocab_size=VOCAB_SIZE,
        enable_prefix_caching=bool(asked.get("enable_prefix_caching")),
        target_itl_s=float(asked.get("target_itl_ms")) / 1000,
        max_repeat=MAX_REPEAT,
    )
    return Scheduler(limits, BlockPool(num_blocks, block_size))


def make_totals(simulation: Simulation, summary: Summary, took_s: float) -> dict[str, Any]:
    """What there is one of."""
    scheduler = simulation.scheduler
    return {
        "what": "scheduler",
        "hours": simulation.now_s / 3600,
        "steps": summary.num_steps,
        "steps_per_s": summary.num_steps / took_s if took_s else 0.0,
        "refused": simulation.num_refused,
        "preemptions": scheduler.num_preemptions,
        "most_waiting": summary.most_waiting,
        "longest_prompt": summary.longest_prompt,
        "service_gap_tokens": summary.service_gap,
    }
