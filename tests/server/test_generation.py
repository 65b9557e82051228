"""What holds for every generation route."""

from __future__ import annotations

import asyncio

import pytest
from tests.api.fakes import FakeEngineClient
from tests.observability.exposition import read_samples
from tests.server.http import call, in_memory, make_state, read_events

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
        samples = read_samples(state.metrics)
        assert {k: v for k, v in samples.items() if k.startswith("request_success_total") and v} == {
            f"request_success_total {reason}": 4
        }
        state.metrics.ledger.check()
        assert state.admission.num_live == 0

    asyncio.run(run())


NAMES = {
    *("queue_ms", "prefill_ms", "decode_ms", "prompt_tokens", "cached_tokens", "completion_tokens"),
    *("prompt_tokens_per_second", "completion_tokens_per_second", "num_preemptions", "num_restarts"),
}


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/chat/completions"])
@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("usage", [None, {"include_usage": True}, {"continuous_usage_stats": True}])
def test_timings_are_in_the_answer_and_in_the_last_chunk(path: str, n: int, usage: dict[str, bool] | None) -> None:
    body = {"n": n, "max_tokens": 5, "stream_options": usage and {"include_usage": True, **usage}}
    body |= {"prompt": "a"} if path == "/v1/completions" else {"messages": [{"role": "user", "content": "a"}]}
    events = read_events(call("POST", path, json={**body, "stream": True}).text)
    assert [index for index, event in enumerate(events) if "timings" in event] == [len(events) - 1]
    del body["stream_options"]
    whole = call("POST", path, json=body).json()["timings"]
    assert whole == events[-1]["timings"]
    assert set(whole) == NAMES
    assert (whole["queue_ms"], whole["prefill_ms"], whole["decode_ms"]) == (500, 500, 1000)
    assert (whole["completion_tokens"], whole["completion_tokens_per_second"]) == (5 * n, 4 * n)


def test_timings_are_left_out_if_the_server_is_told_so() -> None:
    for stream in (False, True):
        state = make_state(per_request_metrics=False)
        response = call("POST", "/v1/completions", state=state, json={"prompt": "a", "stream": stream})
        assert "timings" not in response.text


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("fail_after", [0, 2])
def test_a_deadline_is_counted_as_one_whenever_it_passes(fail_after: int, stream: bool) -> None:
    client = FakeEngineClient()
    client.fail_after, client.error_class = fail_after, "DeadlineExceeded"
    state = make_state(client)
    response = call("POST", "/v1/completions", state=state, json={"prompt": "a", "stream": stream})
    assert response.status_code == (200 if stream and fail_after else 504)
    assert "timeout_error" in response.text
    samples = read_samples(state.metrics)
    assert samples["request_success_total deadline"] == samples["deadlines_exceeded_total"] == 1
