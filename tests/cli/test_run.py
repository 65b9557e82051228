"""`pelton run`: order, errors in their place, and going on after a stop."""

from __future__ import annotations

import asyncio
import io
import json
from pathlib import Path
from typing import Any

import pytest
from tests.api.fakes import ANSWER, FakeEngineClient, make_parts, text_tokens
from tests.server.http import make_state

from pelton.api.progress import ProgressBar
from pelton.cli import run as module
from pelton.cli.main import main
from pelton.cli.prompt_file import Line
from pelton.core.step import NewRequest

pytestmark = pytest.mark.unit


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> FakeEngineClient:
    """The engine that `pelton run` gets."""
    fake = FakeEngineClient()

    async def start_in_child(_opened: Any) -> Any:
        fake.reopen()
        return make_parts(fake, max_num_queued_requests=0)

    monkeypatch.setattr(module, "start_in_child", start_in_child)
    monkeypatch.setattr(module, "open_model", lambda asked: asked)
    return fake


def run(tmp_path: Path, lines: list[Any], *flags: str) -> tuple[int, list[Any]]:
    """The exit code and the results of `pelton run` on JSON lines."""
    source, output = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_text("".join(json.dumps(line) + "\n" for line in lines))
    code = main(["run", "tiny", "-i", str(source), "-o", str(output), *flags])
    return code, [json.loads(line) for line in output.read_text().splitlines()]


def test_results_are_in_order_with_errors_in_their_place(client: FakeEngineClient, tmp_path: Path) -> None:
    # The earlier the line, the longer its answer: without care the last would come first.
    client.answer = lambda request: text_tokens("x" * (90 - request.prompt_token_ids[0]))
    lines = [{"prompt_token_ids": [i], "max_tokens": 100} for i in range(60)]
    lines[7] = {"prompt": "a", "temprature": 1}
    code, results = run(tmp_path, lines)
    assert code == 1
    assert [r["index"] for r in results] == list(range(60))
    assert "temprature" in results[7]["error"]["message"]
    assert all(r["text"] == "x" * (90 - i) for i, r in enumerate(results) if i != 7)
    assert client.is_closed


def test_flags_fill_what_a_line_leaves_open(client: FakeEngineClient, tmp_path: Path) -> None:
    _, results = run(tmp_path, ["hi", {"prompt": "hi", "max_tokens": 1}], "--max-tokens", "3", "--chat")
    assert [r["text"] for r in results] == [ANSWER[:3], ANSWER[:1]]
    assert bytes(client.requests[0].prompt_token_ids) == b"[hi]"


def test_an_output_is_not_lost(client: FakeEngineClient, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, first = run(tmp_path, ["a", "b"])
    code, again = run(tmp_path, ["a", "b"])
    assert (code, again) == (2, first)
    assert "--resume" in capsys.readouterr().err
    assert run(tmp_path, ["a"], "--overwrite")[1] == first[:1]


@pytest.mark.parametrize("cut", [0, 1, 40, 10_000])
def test_it_goes_on_after_the_last_whole_line(client: FakeEngineClient, tmp_path: Path, cut: int) -> None:
    _, whole = run(tmp_path, ["a", "b", "c"])
    output = tmp_path / "out.jsonl"
    output.write_bytes(output.read_bytes()[: -cut or None])
    client.requests.clear()
    num_left = output.read_bytes().count(b"\n")
    assert run(tmp_path, ["a", "b", "c"], "--resume") == (0, whole)
    assert len(client.requests) == 3 - num_left


def test_few_lines_are_in_flight_however_many_there_are() -> None:
    most = 0

    def answer(_request: NewRequest) -> list[int]:
        nonlocal most
        most = max(most, len(client.live))
        return text_tokens("x")

    client = FakeEngineClient(answer)
    state = make_state(client)
    state.admission = module.Admission(module.NO_LIMIT)
    lines = [Line(number=i, body={"prompt": "a"}) for i in range(1000)]
    output = io.BytesIO()
    with ProgressBar("Lines", 1000) as bar:
        assert asyncio.run(module.answer_lines(state, lines, output, bar)) == 0
    assert output.getvalue().count(b"\n") == 1000
    assert most <= module.NUM_IN_FLIGHT


@pytest.mark.parametrize(("num_failures", "num_failed"), [(2, 0), (3, 1)])
def test_a_line_that_finds_no_engine_is_tried_again(num_failures: int, num_failed: int) -> None:
    problems = ["it died"] * num_failures
    client = FakeEngineClient()
    client.health_problem = lambda: problems.pop() if problems else None  # type: ignore[method-assign]
    output = io.BytesIO()
    lines = [Line(number=0, body={"prompt": "a", "max_tokens": 50})]
    with ProgressBar("Lines", 1) as bar:
        assert asyncio.run(module.answer_lines(make_state(client), lines, output, bar, (0.0,) * 3)) == num_failed
    assert (json.loads(output.getvalue()).get("text") == ANSWER) == (num_failed == 0)
