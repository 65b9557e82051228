import json
from pathlib import Path

import pytest
from tests.fakes import TinyModel

from pelton.cli.bench_offline import parse_batches
from pelton.cli.main import main
from pelton.errors import ConfigError

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


def test_batches():
    assert parse_batches("1,8, 32") == [1, 8, 32]


@pytest.mark.parametrize("text", ["", "x", "1,", "0", "4,-1", "1.5"])
def test_what_is_no_list_of_batches(text: str):
    with pytest.raises(ConfigError, match=f"^--batch: '{text}' is not a list of positive numbers like 1,8,32"):
        parse_batches(text)
