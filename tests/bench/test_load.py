"""Loads on a real server around a fake engine, and what they are made of."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.api.fakes import FakeEngineClient
from tests.cli.server_thread import serve_in_thread

from pelton.bench.load import Generator, Load, Target, make_arrivals, make_request
from pelton.errors import TransferError

pytestmark = pytest.mark.unit
TARGET = Target(host="127.0.0.1", port=1, model="m")
LOAD = Load(concurrency=3, num_requests=7, num_prompt_words=5, num_output_tokens=6)


def body_of(request: bytes) -> dict[str, Any]:
    head, _, payload = request.partition(b"\r\n\r\n")
    assert f"content-length: {len(payload)}".encode() in head
    found: dict[str, Any] = json.loads(payload)
    return found


def target_at(url: str, **more: Any) -> Target:
    return Target(host="127.0.0.1", port=int(url.rpartition(":")[2]), model="tiny", **more)


def test_requests_differ_and_repeat() -> None:
    bodies = [body_of(make_request(TARGET, LOAD, number)) for number in (0, 1, 0)]
    assert bodies[0] == bodies[2] != bodies[1]
    assert len(bodies[0]["messages"][0]["content"].split()) == 5
    assert (bodies[0]["max_tokens"], bodies[0]["stream"], bodies[0]["ignore_eos"]) == (6, True, True)
    request = make_request(Target(host="h", port=2, model="m", kind="completion", base="/x", api_key="k"), LOAD, 0)
    assert request.startswith(b"POST /x/v1/completions HTTP/1.1\r\nhost: h:2\r\nauthorization: Bearer k\r\n")
    assert isinstance(body_of(request)["prompt"], str)


def test_arrivals_have_the_asked_for_rate_and_are_known_from_the_seed() -> None:
    load = Load(concurrency=0, num_requests=2000, num_prompt_words=1, num_output_tokens=1, rate=50.0, seed=3)
    times = make_arrivals(load)
    assert times == sorted(times) == make_arrivals(load)
    assert len(times) == 2000
    assert times[-1] == pytest.approx(40, rel=0.1)


@pytest.mark.parametrize("kind", ["chat", "completion"])
def test_a_closed_loop_has_so_many_requests_at_a_time(kind: str) -> None:
    most_live = 0

    class Watched(FakeEngineClient):
        async def generate(self, request: Any) -> Any:
            nonlocal most_live
            async for output in super().generate(request):
                most_live = max(most_live, len(self.live))
                yield output

    client = Watched()
    answered: list[None] = []
    with serve_in_thread(client) as url:
        target = target_at(url, kind=kind)
        answers = Generator(target, LOAD, on_answer=lambda: answered.append(None)).run()
    assert [answer.error for answer in answers] == [None] * 7
    assert {answer.num_output_tokens for answer in answers} == {6}
    assert all(sum(answer.counts) == 6 for answer in answers)
    assert len(client.requests) == len(answered) == 7
    assert 1 <= most_live <= 3


def test_an_open_loop_sends_all_its_requests() -> None:
    load = Load(concurrency=0, num_requests=5, num_prompt_words=3, num_output_tokens=4, rate=200.0)
    with serve_in_thread() as url:
        answers = Generator(target_at(url), load).run()
    assert [answer.error for answer in answers] == [None] * 5
    starts = sorted(answer.start_s for answer in answers)
    wanted = make_arrivals(load)
    assert all(start - starts[0] >= due - wanted[0] - 0.02 for start, due in zip(starts, wanted, strict=True))


def test_requests_that_a_server_refuses_are_errors() -> None:
    client = FakeEngineClient()
    client.problem = "it is on fire"
    with serve_in_thread(client) as url:
        answers = Generator(target_at(url), LOAD).run()
    assert len(answers) == 7
    assert all(answer.error is not None and "status 503" in answer.error for answer in answers)


def test_nobody_listens() -> None:
    with serve_in_thread() as url:
        target = target_at(url)
    with pytest.raises(TransferError, match=r"the request cannot be sent .* Does the server run"):
        Generator(target, LOAD).run()
