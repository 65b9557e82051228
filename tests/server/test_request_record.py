"""What is written down of a request once it is over, and where requests are counted that were refused early."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import pytest
from tests.api.fakes import FakeEngineClient
from tests.observability.exposition import read_samples
from tests.server.http import call, in_memory, make_state
from tests.server.test_tally import check_law

from pelton.observability.log import LineFormatter
from pelton.server.request_record import RequestRecord, current_record, recording
from pelton.server.state import ServerState

pytestmark = pytest.mark.unit
SECRET = "sk-very-secret"


def lines_of(caplog: pytest.LogCaptureFixture, *, is_json: bool = True) -> list[str]:
    formatter = LineFormatter(is_json=is_json)
    return [formatter.format(record) for record in caplog.records if record.getMessage() == "request"]


def test_a_line_says_who_what_and_how_long(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "pelton")
    body = {"prompt": "my private words", "max_tokens": 3}
    call("POST", "/v1/completions", json=body, headers={"x-request-id": "abc-1"})
    (line,) = map(json.loads, lines_of(caplog))
    assert line["request_id"] == "abc-1"
    assert (line["method"], line["path"], line["status"]) == ("POST", "/v1/completions", 200)
    assert line["prompt_tokens"] == len("my private words") + 1
    assert (line["completion_tokens"], line["cached_tokens"], line["finish_reason"]) == (3, 1, "length")
    assert (line["queue_s"], line["prefill_s"], line["decode_s"]) == (0.5, 0.5, 1.0)


def test_no_line_holds_a_key_a_prompt_or_an_answer(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    state = make_state(api_key=SECRET)
    for key in (SECRET, SECRET + "x"):
        for stream in (False, True):
            body = {"prompt": "my private words", "stream": stream, "user": "someone"}
            call("POST", "/v1/completions", state=state, json=body, headers={"authorization": f"Bearer {key}"})
    lines = [LineFormatter(is_json=True).format(r) for r in caplog.records if r.name.startswith("pelton")]
    assert sum('"event": "request"' in line for line in lines) == 4
    for secret in (SECRET, "private", "Hello", "someone"):
        assert not any(secret in line for line in lines)


@pytest.mark.parametrize("is_json", [False, True])
@pytest.mark.parametrize(
    "path", ["/a%0d%0a2026 error forged", "/a%20status=200%20x", '/"%7d%0a', "/\u202e\u2028%1b[2J"]
)
def test_a_path_cannot_forge_a_line(caplog: pytest.LogCaptureFixture, path: str, is_json: bool) -> None:
    caplog.set_level(logging.INFO, "pelton")
    call("GET", path)
    (line,) = lines_of(caplog, is_json=is_json)
    assert line.isprintable()
    assert line.isascii()
    if is_json:
        assert json.loads(line)["status"] == 404
    else:
        assert line.count(" status=") <= 1 + line.count("\\") + line.count('"')
        assert " status=404 " in line


def refused(state: ServerState, *args: Any, **more: Any) -> dict[str, float]:
    call(*args, state=state, **more)
    state.metrics.ledger.check()
    samples = read_samples(state.metrics)
    check_law(samples)
    return {k: v for k, v in samples.items() if k.startswith(("requests_refused", "request_success")) and v}


@pytest.mark.parametrize(
    ("body", "stage", "status"),
    [
        (b"{", "request", 400),
        (b'{"prompt": "a", "temprature": 1}', "request", 400),
        (b'{"prompt": "a", "model": "other"}', "request", 404),
        (b'{"prompt": "a", "n": 99}', "reserve", 400),
        (json.dumps({"prompt": "a" * 500}).encode(), "engine", 400),
    ],
)
def test_requests_are_refused_somewhere(body: bytes, stage: str, status: int) -> None:
    count = 99 if stage == "reserve" else 1
    found = refused(make_state(max_num_queued_requests=4), "POST", "/v1/completions", content=body,
                    headers={"content-type": "application/json"})  # fmt: skip
    assert found == {f"requests_refused_total {stage} {status}": count}


def test_a_wrong_key_is_refused_at_the_door() -> None:
    found = refused(make_state(api_key="k"), "POST", "/v1/completions", json={"prompt": "a"})
    assert found == {"requests_refused_total auth 401": 1}


def test_a_fault_of_ours_is_an_error_and_no_refusal() -> None:
    def broken(_request: Any) -> list[int]:
        raise ZeroDivisionError

    found = refused(make_state(FakeEngineClient(broken)), "POST", "/v1/completions", json={"prompt": "a"})
    assert found == {"request_success_total error": 1}


def test_other_routes_are_counted_by_their_declared_path() -> None:
    state = make_state()
    for path in ("/health", "/v1/models/tiny", "/v1/models/alias", "/nowhere", "/nowhere/else"):
        call("GET", path, state=state)
    samples = read_samples(state.metrics)
    assert samples["http_requests_total /health 200"] == 1
    assert samples["http_requests_total /v1/models/{model:path} 200"] == 2
    assert samples["http_requests_total other 404"] == 2
    assert samples["http_requests_received_total"] == 5
    assert samples["http_requests_in_progress"] == 0
    assert samples["requests_received_total"] == 0


def test_a_request_in_progress_is_seen_by_the_scrape() -> None:
    async def run() -> None:
        state = make_state()
        async with in_memory(state) as http:
            text = (await http.get("/metrics")).text
        assert 'pelton:http_requests_in_progress{engine="0",model_name="tiny"} 1.0' in text

    asyncio.run(run())


def test_a_record_follows_the_tasks_of_its_request() -> None:
    async def run() -> None:
        record = RequestRecord(request_id="a", method="GET", path="/", headers={})

        async def inside() -> RequestRecord | None:
            return current_record()

        with recording(record):
            assert await asyncio.create_task(inside()) is record
        assert current_record() is None

    asyncio.run(run())
