"""Our engine as a contestant of a comparison: `python -m pelton.bench.leg SETTINGS`, the settings as a JSON object.

Loaded once, then driven over stdin and stdout line by line, in the words of benchmarks/peers/workload.py: the same ids
from the same seeds, two runs on different ids, the difference is decode. It is measured from outside like any peer.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Iterable, Iterator
from typing import IO, Any

from pelton import __version__
from pelton.api.assemble import make_loop, open_model
from pelton.config.user_config import UserConfig, ask
from pelton.core.sampling_params import SamplingParams
from pelton.core.step import NewRequest, RequestId
from pelton.engine.loop import EngineLoop
from pelton.errors import ConfigError, EngineError, InternalError

DEFAULTS = {"prompt": 128, "output": 64, "depth": 0, "seed": 0, "first_id": 1000, "last_id": 20000}


def make_prompts(batch: int, length: int, seed: int, first_id: int, last_id: int) -> list[list[int]]:
    """The same ids for every engine."""
    ids = random.Random(seed)
    return [[ids.randint(first_id, last_id) for _ in range(length)] for _ in range(batch)]


def time_batch(engine: EngineLoop, prompts: list[list[int]], num_tokens: int) -> float:
    """Seconds until every prompt has `num_tokens` output tokens, greedy, end-of-sequence ignored."""
    sampling = SamplingParams(temperature=0.0, max_tokens=num_tokens, ignore_eos=True)
    requests = [
        NewRequest(request_id=RequestId(f"leg-{row}"), prompt_token_ids=tuple(prompt), sampling=sampling)
        for row, prompt in enumerate(prompts)
    ]
    start_s = time.perf_counter()
    for output in engine.run(requests):
        if output.finish_reason == "error":
            raise InternalError(f"leg: a request failed: {output.error}", request_id=output.request_id)
    return time.perf_counter() - start_s


def answer(engine: EngineLoop, request: dict[str, Any]) -> dict[str, Any]:
    """The times of one leg, or what stood in its way."""
    work = {**DEFAULTS, **request}
    batch, length, output = work["batch"], work["depth"] + work["prompt"], work["output"]
    times_s = []
    try:
        for run, num_tokens in enumerate((1, output + 1)):
            prompts = make_prompts(batch, length, 2 * work["seed"] + run, work["first_id"], work["last_id"])
            times_s.append(time_batch(engine, prompts, num_tokens))
    except EngineError as error:
        return {"error": str(error)}
    return {"prefill_s": times_s[0], "decode_s": times_s[1] - times_s[0]}


def serve_legs(asked: UserConfig, requests: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Load, describe the engine, and answer requests until there are no more."""
    start_s = time.perf_counter()
    opened = open_model(asked)
    engine = make_loop(opened.checkpoint, opened.config, lambda _stage, _fraction: None)
    try:
        yield {
            "engine": "pelton",
            "version": __version__,
            "model": opened.config.model.model,
            "precision": opened.checkpoint.spec.weight_dtype,
            "load_s": round(time.perf_counter() - start_s, 2),
        }
        for line in requests:
            yield answer(engine, json.loads(line))
    finally:
        engine.close()
        opened.checkpoint.close()


def main(arguments: list[str], stdin: IO[str], stdout: IO[str]) -> int:
    """Answer on `stdout`; returns the exit code."""
    if len(arguments) != 1:
        raise ConfigError("leg process: wants the settings as one JSON object. Use `pelton bench compare`.")
    for line in serve_legs(ask(**json.loads(arguments[0])), stdin):
        stdout.write(json.dumps(line) + "\n")
        stdout.flush()
    return 0


if __name__ == "__main__":
    try:
        code = main(sys.argv[1:], sys.stdin, sys.stdout)
    except EngineError as error:
        sys.stderr.write(f"{error}\n")
        code = error.exit_code
    sys.exit(code)
