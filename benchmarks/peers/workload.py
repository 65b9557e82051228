"""What all peers share: the workload, the clock, and the lines that they read and write.

A peer loads its engine once and is then driven from outside, leg by leg. It writes one line of JSON that says what it
is; after that every line on stdin is a request, and has one line as its answer:

    {"batch": 8, "prompt": 128, "output": 64, "depth": 0, "seed": 1, "first_id": 1000, "last_id": 20000}
    {"prefill_s": 1.02, "decode_s": 2.9}

`batch` requests of `depth + prompt` random token ids each, greedy, end-of-sequence ignored. Two runs are timed on
different ids: one that ends with the first token (prefill), and one with `output` tokens more; decode is the
difference. By hand: `echo '{"batch": 8}' | python openvino_peer.py MODEL`.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

DEFAULTS = {"prompt": 128, "output": 64, "depth": 0, "seed": 0, "first_id": 1000, "last_id": 20000}


class Engine(ABC):
    """What a peer script implements. All prompts of one call are equally long."""

    name = ""
    version = ""
    precision = ""  # what the weights are stored in

    def prepare(self, batch: int, length: int) -> None:
        """Make room for `batch` requests of `length` tokens, outside of the clock."""
        return  # most engines need nothing

    @abstractmethod
    def generate(self, prompts: list[list[int]], new_tokens: int) -> None:
        """Decode exactly `new_tokens` for each prompt, all prompts together."""

    def write_logits(self, token_ids: list[int], position: int, window: int, file: str) -> tuple[int, int]:
        """Write float32 logits [T, V] after each of `token_ids` to `file`; returns (T, V).

        They begin at `position` of a text of at most `window` tokens, and follow on the piece before; 0 begins another.
        """
        raise NotImplementedError(f"{self.name} gives no logits here")


def make_prompts(batch: int, length: int, seed: int, first_id: int, last_id: int) -> list[list[int]]:
    """The same ids for every engine."""
    ids = random.Random(seed)
    return [[ids.randint(first_id, last_id) for _ in range(length)] for _ in range(batch)]


def answer_leg(engine: Engine, request: dict[str, Any]) -> dict[str, float]:
    """Time one leg."""
    work = {**DEFAULTS, **request}
    batch, length, output = work["batch"], work["depth"] + work["prompt"], work["output"]
    engine.prepare(batch, length + output + 1)
    times = []
    for run, new_tokens in enumerate((1, output + 1)):
        prompts = make_prompts(batch, length, 2 * work["seed"] + run, work["first_id"], work["last_id"])
        start = time.perf_counter()
        engine.generate(prompts, new_tokens)
        times.append(time.perf_counter() - start)
    return {"prefill_s": times[0], "decode_s": times[1] - times[0]}


def answer_logits(engine: Engine, request: dict[str, Any]) -> dict[str, int]:
    """Write the logits of a piece of a text to the file that the request names."""
    num_rows, num_columns = engine.write_logits(
        request["token_ids"], request["position"], request["window"], request["file"]
    )
    return {"num_rows": num_rows, "num_columns": num_columns}


def run_peer(description: str, load: Callable[[argparse.Namespace], Engine]) -> None:
    """Be a peer: load, say so, and answer until stdin ends. What the engine prints goes to stderr."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("model", help="the model in the form that this engine reads")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    args = parser.parse_args()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    sys.stdout = sys.stderr

    def write(answer: dict[str, Any]) -> None:
        answers.write(json.dumps(answer) + "\n")
        answers.flush()

    start = time.perf_counter()
    engine = load(args)
    load_s = round(time.perf_counter() - start, 2)
    model = args.model.rstrip("/").rsplit("/", 1)[-1]
    facts = {"engine": engine.name, "version": engine.version, "model": model, "precision": engine.precision}
    write({**facts, "load_s": load_s})
    for line in sys.stdin:
        request = json.loads(line)
        try:
            write((answer_logits if "token_ids" in request else answer_leg)(engine, request))
        except (RuntimeError, ValueError, MemoryError, NotImplementedError) as error:
            write({"error": f"{type(error).__name__}: {error}"})
