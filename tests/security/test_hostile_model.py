"""A model's directory cannot run code here, and its names lead nowhere else."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest
from tests.end_to_end.served import run_pelton, serve
from tests.fakes import TinyModel

pytestmark = pytest.mark.cpu  # real processes


def test_code_of_a_model_is_never_run(tmp_path: Path) -> None:
    model, canary = TinyModel().write(tmp_path / "model"), tmp_path / "canary"
    code = f"open({str(canary)!r}, 'w').close()\n"
    for name in (
        "modeling_x",
        "tokenization_x",
        "configuration_x",
        "__init__",
        "setup",
        "sitecustomize",
        "json",
        "numpy",
    ):
        (model / f"{name}.py").write_text(code)
    for name, auto in (("config.json", {"AutoConfig": "configuration_x.C", "AutoModelForCausalLM": "modeling_x.M"}),
                       ("tokenizer_config.json", {"AutoTokenizer": ["tokenization_x.T", None]})):  # fmt: skip
        content = json.loads((model / name).read_text())
        (model / name).write_text(json.dumps(content | {"auto_map": auto}))
    with serve(model, "--num-threads", "1") as served:
        answer = httpx.post(f"{served.url}/v1/completions", json={"prompt": "a", "max_tokens": 2}, timeout=20)
        assert answer.status_code == 200
        assert served.end() == 0
    assert not canary.exists()


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "model.pkl", "model.ckpt"])
def test_weights_that_are_programs_are_not_read(tmp_path: Path, name: str) -> None:
    model = TinyModel().write(tmp_path / "model")
    (model / "model.safetensors").rename(model / name)
    result = run_pelton("serve", str(model), "--port", "0")
    assert result.returncode not in (0, -9)
    assert "safetensors" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    "flags",
    [
        ("../../../../etc/passwd",),
        ("a/../../b",),
        ("https://a.example/b",),
        ("a\nb",),
        ("oracle", "--executor", "../x"),
        ("oracle", "--executor", "oracle", "--chat-template", "/nowhere"),
        ("oracle", "--executor", "oracle", "--config", "/nowhere.yaml"),
    ],
    ids=str,
)
def test_odd_names_are_refused_in_one_line(flags: tuple[str, ...]) -> None:
    result = run_pelton("serve", *flags, "--port", "0")
    assert result.returncode in (2, 65, 69)
    assert "Traceback" not in result.stderr
    assert len(result.stderr.splitlines()) <= 4
