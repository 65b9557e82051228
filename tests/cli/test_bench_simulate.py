import json
from pathlib import Path

import pytest

from pelton.cli.main import main

pytestmark = pytest.mark.unit


def simulate(capsys: pytest.CaptureFixture[str], *flags: str) -> dict[str, dict[str, float]]:
    assert main(["bench", "simulate", "--hours", "0.05", *flags]) == 0
    return {row["what"]: row for row in map(json.loads, capsys.readouterr().out.splitlines())}


def test_a_day_of_several_tenants(capsys: pytest.CaptureFixture[str]) -> None:
    rows = simulate(capsys, "--traffic", "flood", "--rate", "8")
    assert set(rows) == {"all", "tenant flood", "tenant polite", "scheduler"}
    assert rows["all"]["requests"] == rows["tenant flood"]["requests"] + rows["tenant polite"]["requests"] > 1000
    assert rows["tenant polite"]["ttft_p99_s"] < rows["tenant flood"]["ttft_p50_s"] / 4
    assert rows["scheduler"]["steps_per_s"] > 1000
    assert rows["scheduler"]["service_gap_tokens"] < 3000


def test_tenants_that_wait_are_served_evenly(capsys: pytest.CaptureFixture[str]) -> None:
    rows = simulate(capsys, "--traffic", "mixed", "--rate", "3", "--hours", "0.2")
    assert rows["scheduler"]["most_waiting"] > 100
    assert rows["scheduler"]["service_gap_tokens"] < 3 * rows["scheduler"]["longest_prompt"]


def test_priorities_count_if_they_are_asked_for(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "day.jsonl"
    lines = [
        {"at_s": 0.1 * number, "prompt_tokens": 64, "output_tokens": 20, "priority": number % 2} for number in range(60)
    ]
    path.write_text("\n".join(map(json.dumps, lines)))
    flags = ("--replay", str(path), "--max-num-requests", "2")
    assert set(simulate(capsys, *flags)) == {"all", "scheduler"}
    rows = simulate(capsys, *flags, "--scheduling-policy", "priority")
    assert set(rows) == {"all", "priority 0", "priority 1", "scheduler"}
    assert rows["priority 0"]["queue_p50_s"] < rows["priority 1"]["queue_p50_s"]


def test_limits_are_the_scheduler_s(capsys: pytest.CaptureFixture[str]) -> None:
    rows = simulate(capsys, "--traffic", "burst", "--blocks", "40", "--block-size", "16", "--max-model-len", "320")
    assert rows["scheduler"]["preemptions"] > 0
    assert rows["scheduler"]["refused"] > 0
    slow = simulate(capsys, "--traffic", "chat", "--rate", "3", "--cost", "step_ms=100", "--no-enable-prefix-caching")
    assert slow["all"]["itl_p50_s"] == pytest.approx(0.1, rel=0.01)
    assert slow["all"]["cached_share"] == 0.0


def test_what_is_wrong_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "simulate", "--cost", "much"]) == 2
    assert "--cost: 'much' is no cost" in capsys.readouterr().err
