import json
import sys
from pathlib import Path

import pytest
from tests.bench.fake_peer import FLAT_LOGITS, write_peer
from tests.fakes import VOCAB_SIZE, TinyModel

from pelton.cli.main import main

pytestmark = pytest.mark.cpu

TEXT = "It was the best of times, it was the worst of times, it was the age of wisdom."


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return str(TinyModel().write(tmp_path / "tiny"))


@pytest.fixture
def text(tmp_path: Path) -> str:
    file = tmp_path / "text.txt"
    file.write_text(TEXT, encoding="utf-8")
    return str(file)


def fidelity(*args: str) -> int:
    return main(["eval", "fidelity", *args, "--num-threads", "1", "--window", "32"])


def test_exact_is_within_rounding_and_the_default_near(folder: str, text: str, capsys: pytest.CaptureFixture[str]):
    """A window of 32 cuts 70 positions into three; a token of this model is a byte."""
    found = []
    for flags in (["--exact"], []):
        assert fidelity(folder, "--text", text, "--positions", "70", *flags) == 0
        found.append(json.loads(capsys.readouterr().out))
    exact, default = found
    assert exact["num_positions"] == default["num_positions"] == 70
    assert (exact["backend"], exact["same_token"]) == ("cpu", 1)
    assert exact["max_kl"] < 1e-8 < default["mean_kl"] < 0.05


def test_the_reference_agrees_with_itself(folder: str, text: str, capsys: pytest.CaptureFixture[str]):
    assert fidelity(folder, "--text", text, "--positions", "40", "--backend", "reference") == 0
    row = json.loads(capsys.readouterr().out)
    assert (row["model"], row["backend"]) == (folder, "reference")
    assert (row["same_token"], row["mean_kl"], row["max_kl"]) == (1, 0, 0)


def test_source_and_english_are_the_texts_if_none_is_given(folder: str, capsys: pytest.CaptureFixture[str]):
    assert fidelity(folder, "--positions", "33") == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["text"].split(" (")[0] for row in rows] == ["python source", "english"]
    assert [row["num_positions"] for row in rows] == [33, 33]


def test_several_texts_and_their_perplexity(folder: str, text: str, capsys: pytest.CaptureFixture[str]):
    assert fidelity(folder, "--text", text, "--text", text, "--positions", "40", "--exact") == 0
    first, second = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert first == second
    assert first["perplexity"] == pytest.approx(first["reference_perplexity"], rel=1e-4)
    assert first["perplexity"] > 20, "a random model of 300 tokens knows nothing"


def test_another_engine_is_compared_on_the_same_tokens(
    folder: str, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """The other engine here finds every token equally likely: its perplexity is the size of the vocabulary."""
    peer = write_peer(tmp_path, FLAT_LOGITS, VOCAB_SIZE)
    flags = ["--peer", str(peer), "--peer-python", sys.executable]
    assert fidelity(folder, "--text", text, "--positions", "70", *flags) == 0
    ours, theirs = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert (ours["engine"], theirs["engine"], theirs["version"]) == ("pelton", "flat", "1")
    assert ours["reference_perplexity"] == theirs["reference_perplexity"]
    assert theirs["perplexity"] == pytest.approx(VOCAB_SIZE)
    assert theirs["mean_kl"] > ours["mean_kl"]


def test_an_engine_with_another_vocabulary(folder: str, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    peer = write_peer(tmp_path, FLAT_LOGITS, 5)
    flags = ["--peer", str(peer), "--peer-python", sys.executable]
    assert fidelity(folder, "--text", text, "--positions", "70", *flags) == 69
    assert "Compare the same model" in capsys.readouterr().err


@pytest.mark.parametrize(("flag", "least"), [("--positions", 1), ("--window", 16)])
def test_counts_have_a_least_value(flag: str, least: int, capsys: pytest.CaptureFixture[str]):
    assert main(["eval", "fidelity", "demo", flag, str(least - 1)]) == 2
    assert f"'{flag}': {least - 1} is not in the range x>={least}" in capsys.readouterr().err


def test_texts_that_cannot_be_used(folder: str, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert fidelity(folder, "--text", text, "--positions", "1000") == 2
    assert f"text.txt has {len(TEXT)} tokens, --positions asks for 1000" in capsys.readouterr().err
    assert fidelity(folder, "--text", str(tmp_path / "none")) == 2
    assert "none cannot be read" in capsys.readouterr().err
    (tmp_path / "bad").write_bytes(b"\xff")
    assert fidelity(folder, "--text", str(tmp_path / "bad")) == 2
    assert "bad cannot be read" in capsys.readouterr().err
