"""How long a request that comes now would wait, from what the engine says of itself."""

from __future__ import annotations

from typing import Final

from pelton.core.outputs import EngineStats

LEAST_S: Final = 0.1
MOST_S: Final = 300.0
UNKNOWN_S: Final = 1.0  # before the engine knows its own speed


def estimate_wait_s(stats: EngineStats) -> float:
    """Seconds until the prompts that wait now are computed, or 0 if none wait.

    An estimate: prompts may turn out to be cached, and requests that run may leave less to prompts than of late.
    """
    if stats.num_waiting == 0:
        return 0.0
    if stats.prompt_tokens_per_s <= 0:
        return UNKNOWN_S
    return min(MOST_S, max(LEAST_S, stats.num_waiting_tokens / stats.prompt_tokens_per_s))
