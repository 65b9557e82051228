"""How long newcomers wait."""

import pytest

from pelton.core.outputs import EngineStats
from pelton.server.backlog import LEAST_S, MOST_S, UNKNOWN_S, estimate_wait_s

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("waiting", "tokens", "speed", "seconds"),
    [
        (0, 0, 0.0, 0.0),
        (0, 0, 100.0, 0.0),
        (3, 500, 0.0, UNKNOWN_S),
        (3, 500, 100.0, 5.0),
        (3, 1, 1e6, LEAST_S),
        (3, 10**9, 1.0, MOST_S),
    ],
)
def test_waits(waiting: int, tokens: int, speed: float, seconds: float) -> None:
    stats = EngineStats(num_waiting=waiting, num_waiting_tokens=tokens, prompt_tokens_per_s=speed)
    assert estimate_wait_s(stats) == seconds
