"""The k-th call of each thing in the engine fails: another engine takes over, and no request gets another token."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.engine.fake_engine_main import SEAMS, Behaviour
from tests.engine.fakes import compute_continuation
from tests.server.engine_process import serving

pytestmark = pytest.mark.cpu  # real processes
NUM_TOKENS = 12


@pytest.mark.parametrize("at", [2, 5, 9])
@pytest.mark.parametrize("seam", SEAMS)
def test_nobody_notices_but_by_a_pause(seam: str, at: int, tmp_path: Path) -> None:
    once = tmp_path / "failed"

    async def run() -> None:
        behaviour = Behaviour(seam=seam, at=at, once_path=str(once), step_s=0.0005)
        async with serving(behaviour, max_num_queued_requests=100) as (state, client, http):
            prompts = [[2 + number, 5, 7] for number in range(6)]

            async def ask(prompt: list[int]) -> Any:
                more = {"max_tokens": NUM_TOKENS, "ignore_eos": True, "return_token_ids": True}
                answer = await http.post("/v1/completions", json={"prompt": prompt, **more})
                assert answer.status_code == 200, answer.text
                return answer.json()["choices"][0]["token_ids"]

            for _ in range(3):
                answers = await asyncio.gather(*map(ask, prompts))
                assert answers == [compute_continuation(prompt, NUM_TOKENS) for prompt in prompts]
            assert once.exists(), "the seam is never used"
            assert client.num_restarts <= 1
            assert state.admission.num_live == 0
            assert client.health_problem() is None
            state.metrics.ledger.check()

    asyncio.run(asyncio.wait_for(run(), 60))


def test_logits_that_are_no_numbers_end_their_request_alone() -> None:
    async def run() -> None:
        async with serving(Behaviour(fault="nan")) as (_, client, http):
            bodies = [{"prompt": [1 + number % 2, 5, 7], "max_tokens": 8, "ignore_eos": True} for number in range(8)]
            answers = await asyncio.gather(*(http.post("/v1/completions", json=body) for body in bodies))
            assert [answer.status_code for answer in answers] == [500, 200] * 4
            assert all(answer.json()["error"]["code"] == 500 for answer in answers[::2])
            assert client.num_restarts == 0

    asyncio.run(asyncio.wait_for(run(), 60))
