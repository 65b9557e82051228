import json
from pathlib import Path

import pytest
from tests.fakes import TinyModel

from pelton.cli.main import main

pytestmark = pytest.mark.cpu


def test_one_line_of_json_per_batch_size(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    folder = str(TinyModel().write(tmp_path / "tiny"))
    flags = ["--num-threads", "1", "--kv-cache-memory-bytes", "1MiB", "--max-model-len", "128"]
    sizes = ["--batch", "1,3", "--prompt", "20", "--output", "5", "--repeat", "1"]
    assert main(["bench", "offline", folder, *flags, *sizes]) == 0
    out, err = capsys.readouterr()
    rows = [json.loads(line) for line in out.splitlines()]
    assert [(row["batch"], row["prompt_tokens"], row["output_tokens"]) for row in rows] == [(1, 20, 5), (3, 20, 5)]
    assert all(row["engine"] == "pelton" and row["model"] == folder for row in rows)
    assert all(row["prefill_tokens_per_s"] > 0 and row["decode_tokens_per_s"] > 0 for row in rows)
    assert err == ""


def test_no_model(capsys: pytest.CaptureFixture[str]):
    assert main(["bench", "offline"]) == 2
    assert "MODEL is missing" in capsys.readouterr().err


@pytest.mark.parametrize("flag", ["--prompt", "--output", "--repeat"])
def test_counts_begin_at_one(flag: str, capsys: pytest.CaptureFixture[str]):
    assert main(["bench", "offline", "demo", flag, "0"]) == 2
    assert f"'{flag}': 0 is not in the range x>=1" in capsys.readouterr().err


def test_depth_prefix_and_profile(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    folder = str(TinyModel().write(tmp_path / "tiny"))
    flags = ["--num-threads", "1", "--kv-cache-memory-bytes", "1MiB", "--max-model-len", "128"]
    sizes = ["--batch", "2", "--output", "3", "--repeat", "1", "--depth", "40", "--shared-prefix", "32", "--profile"]
    assert main(["bench", "offline", folder, *flags, *sizes]) == 0
    first, *rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert (first["depth"], first["shared_prefix"], first["prefill_tokens_per_s"]) == (40, 32, None)
    assert first["decode_tokens_per_s"] > 0
    assert {row["phase"] for row in rows} == {"prefill", "decode"}
    assert {"step", "host", "attention", "sampling", "barrier"} <= {row["part"] for row in rows}
    for phase in ("prefill", "decode"):
        shares = [row["percent"] for row in rows if row["phase"] == phase and row["part"] != "step"]
        assert sum(shares) == pytest.approx(100, abs=1)


def test_a_prefix_longer_than_the_prompt(capsys: pytest.CaptureFixture[str]):
    assert main(["bench", "offline", "demo", "--prompt", "10", "--shared-prefix", "11"]) == 2
    assert "--shared-prefix: 11 tokens are more than the 10 of a prompt." in capsys.readouterr().err


def test_settings_that_change_nothing_have_no_flag(capsys: pytest.CaptureFixture[str]):
    assert main(["bench", "offline", "demo", "--chat-template", "x"]) == 2
    assert "--chat-template: not a known flag." in capsys.readouterr().err
