"""Commands that end: offline runs, and bad input with one clear line and the right exit code."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from tests.end_to_end.served import Served, run_pelton
from tests.fakes import TinyModel

from pelton import LLM, SamplingParams

pytestmark = pytest.mark.cpu


def test_run_answers_a_file_as_the_library_does(tiny_model: Path, tmp_path: Path) -> None:
    prompts = ["one", "two and more", "three"]
    (tmp_path / "in.txt").write_text("\n".join(prompts))
    flags = ["-i", str(tmp_path / "in.txt"), "-o", str(tmp_path / "out.jsonl"), "--num-threads", "1"]
    done = run_pelton("run", str(tiny_model), *flags, "--max-tokens", "12", "--temperature", "0")
    assert done.returncode == 0, done.stderr
    results = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    sampling = SamplingParams(temperature=0, max_tokens=12)
    with LLM(str(tiny_model), num_threads=1) as llm:
        outputs = llm.generate(prompts, sampling, use_tqdm=False)
        again = llm.generate([list(o.prompt_token_ids) for o in outputs], sampling, use_tqdm=False)
    assert [r["text"] for r in results] == [o.text for o in outputs] == [o.text for o in again]
    assert all(o.timings.first_token_s >= o.timings.arrival_s > 0 for o in outputs)


def test_chat_and_complete_over_a_pipe(served: Served) -> None:
    done = run_pelton("chat", "--url", served.url, "--max-tokens", "5", stdin="hi\nho\n")
    assert done.returncode == 0, done.stderr
    assert run_pelton("complete", "--url", served.url, "-q", "abc", "--max-tokens", "5").returncode == 0


def test_bad_input_is_one_line_and_an_exit_code(tiny_model: Path, tmp_path: Path) -> None:
    truncated = tmp_path / "cut.gguf"
    truncated.write_bytes(b"GGUF\x03\x00\x00\x00")
    odd = TinyModel().write(tmp_path / "odd")
    config = json.loads((odd / "config.json").read_text())
    (odd / "config.json").write_text(json.dumps({**config, "architectures": ["OddForCausalLM"], "model_type": "odd"}))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        cases = [
            (["serve", str(tmp_path / "missing.gguf")], (2, 65), "missing.gguf"),
            (["serve", str(truncated)], (65,), "cut.gguf"),
            (["serve", str(odd)], (65,), "odd"),
            (["serve", str(tiny_model), "--port", port], (2,), "in use"),
            (["serve", str(tiny_model), "--prot", "1"], (2,), "--port"),
            (["serve", str(tiny_model), "--max-model-len", "100000"], (2,), "max-model-len"),
            (["sreve"], (2,), "serve"),
        ]
        for arguments, codes, words in cases:
            extra = ["--port", "0"] if arguments[0] == "serve" and "--port" not in arguments else []
            done = run_pelton(*arguments, *extra)
            last = done.stderr.strip().splitlines()[-1]
            assert done.returncode in codes, (arguments, done.stderr)
            assert words in last, (arguments, done.stderr)
            assert "Traceback" not in done.stderr


def test_a_script_that_closes_nothing_ends_in_silence(tiny_model: Path) -> None:
    script = f"from pelton import LLM; llm = LLM({str(tiny_model)!r}, num_threads=1); print(llm.generate('a')[0].text)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
