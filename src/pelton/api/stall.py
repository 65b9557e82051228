"""How long an engine may be silent before it counts as stuck: longer than its longest step on a slow day.

An engine says nothing during a step, and a step's length is known from the model's size to an order of magnitude. A
limit that a large model on a slow machine reaches would kill a healthy engine, and every one that is started after it.
"""

from __future__ import annotations

from pelton.checkpoint.model_spec import ModelSpec
from pelton.config.schema import EngineConfig

SHORTEST_TIMEOUT_S = 30.0
# Operations per second that any machine reaches, a tenth of what two cores were measured at or less.
SLOWEST_SPEED = {"generic": 1e9, "avx2": 2e10, "avx512": 2e10}


def compute_stall_timeout_s(spec: ModelSpec, weight_bytes: int, config: EngineConfig, isa: str) -> float:
    """Seconds of silence after which the engine is stuck. A byte of weights counts as one weight."""
    per_token = 2.0 * weight_bytes + 4.0 * spec.num_layers * spec.q_size * config.model.max_model_len
    speed = SLOWEST_SPEED["generic" if config.runner.backend == "reference" else isa]
    return max(SHORTEST_TIMEOUT_S, per_token * config.scheduler.max_num_batched_tokens / speed)
