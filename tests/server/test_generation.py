"""What holds for every generation route."""

from __future__ import annotations

import asyncio

import pytest
from tests.api.fakes import FakeEngineClient
from tests.server.http import in_memory, make_state

from pelton.api.output import TextDelta
from pelton.server.generation import join, make_ignored_headers

pytestmark = pytest.mark.unit


def test_deltas_join_to_one_answer() -> None:
    deltas = [
        TextDelta(index=2, text="a", token_ids=(1,)),
        TextDelta(index=2, text="b", token_ids=(2, 3), finish_reason="stop", stop_reason=7),
    ]
    whole = join(2, deltas)
    assert (whole.index, whole.text, whole.token_ids) == (2, "ab", (1, 2, 3))
    assert (whole.finish_reason, whole.stop_reason) == ("stop", 7)


def test_names_of_ignored_fields_cannot_break_a_header() -> None:
    assert make_ignored_headers(["a\r\nset-cookie: x", "é"]) == {"x-pelton-ignored-fields": "a??set-cookie: x, ?"}
    assert make_ignored_headers([]) == {}


@pytest.mark.parametrize(
    ("fail_after", "problem", "reason"), [(None, None, "length"), (0, None, "error"), (3, None, "error")]
)
def test_every_answer_is_counted_once_by_how_it_ended(fail_after: int | None, problem: str | None, reason: str) -> None:
    async def run() -> None:
        client = FakeEngineClient()
        client.fail_after = fail_after
        state = make_state(client)
        async with in_memory(state) as http:
            for stream in (False, True):
                body = {"prompt": "a", "n": 2, "max_tokens": 5, "stream": stream}
                await http.post("/v1/completions", json=body)
        text = state.metrics.render().decode()
        counts = [line for line in text.splitlines() if line.startswith("pelton:request_success_total{")]
        assert counts == [
            f'pelton:request_success_total{{engine="0",finished_reason="{reason}",model_name="tiny"}} 4.0'
        ]
        assert state.admission.num_live == 0

    asyncio.run(run())
