import json
from pathlib import Path

import pytest
from tests.api.fakes import FakeEngineClient
from tests.cli.server_thread import serve_in_thread
from tests.fakes import TinyModel

from pelton.cli.main import main

SIZES = ["--prompt", "5", "--output", "6"]


@pytest.mark.cpu
def test_a_model_is_served_and_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    folder = str(TinyModel().write(tmp_path / "tiny"))
    flags = ["--num-threads", "1", "--kv-cache-memory-bytes", "4MiB", "--max-model-len", "256"]
    assert main(["bench", "serve", folder, *flags, *SIZES, "--batch", "1,3", "--seed", "4"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(row["concurrency"], row["num_answers"], row["num_errors"]) for row in rows] == [(1, 2, 0), (3, 6, 0)]
    assert all(row["kind"] == "chat" and row["mean_output_tokens"] == 6 for row in rows)
    assert all(0 < row["ttft_p50_s"] <= row["e2e_p50_s"] for row in rows)
    assert all("server_cpu_us_per_token" in row for row in rows)


@pytest.mark.unit
def test_a_server_that_runs_already(capsys: pytest.CaptureFixture[str]):
    with serve_in_thread() as url:
        flags = ["--url", f"{url}/v1", "--no-chat", "--rate", "100", "--requests", "3", "--markdown"]
        assert main(["bench", "serve", *flags, *SIZES]) == 0
    out = capsys.readouterr().out
    assert "| kind | model | rate | " in out
    assert "cpu" not in out


@pytest.mark.unit
def test_errors_are_rows_and_not_the_end(capsys: pytest.CaptureFixture[str]):
    client = FakeEngineClient()
    with serve_in_thread(client) as url:
        assert main(["bench", "serve", "--url", url, "--batch", "2", "--prompt", "300", "--output", "6"]) == 0
    row = json.loads(capsys.readouterr().out)
    assert (row["num_answers"], row["num_errors"]) == (0, 4)
    assert row["first_error"].startswith("status 400: ")


@pytest.mark.unit
def test_a_server_that_answers_nothing_at_all(capsys: pytest.CaptureFixture[str]):
    client = FakeEngineClient()
    client.problem = "it is on fire"
    with serve_in_thread(client) as url:
        assert main(["bench", "serve", "--url", url]) == 2
    assert "a first request failed (status 503" in capsys.readouterr().err
    assert main(["bench", "serve", "--url", "https://example.invalid"]) == 2
    assert "Only plain HTTP is measured" in capsys.readouterr().err


@pytest.mark.unit
def test_what_is_missing_or_wrong(capsys: pytest.CaptureFixture[str]):
    assert main(["bench", "serve"]) == 2
    assert "MODEL is missing" in capsys.readouterr().err
    assert main(["bench", "serve", "--batch", "0", "--url", "x"]) == 2
    assert "--batch: '0' is not a list" in capsys.readouterr().err
