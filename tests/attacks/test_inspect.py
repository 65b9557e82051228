"""Whatever stands in a model's documents, an inspection ends with a report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.fakes import tokenizer_json
from tests.inspection.models import inspect, write
from tests.model_files import llama_gguf, text

from pelton.inspection.screen import format_report

pytestmark = pytest.mark.unit

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 1 << 70) | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=12), inner, max_size=3),
    max_leaves=6,
)
FIELDS = {
    "config.json": [
        *("rope_parameters", "rope_scaling", "rope_theta", "quantization_config", "text_config", "auto_map", "dtype"),
        *("model_type", "eos_token_id", "max_position_embeddings", "architectures", "original_max_position_embeddings"),
    ],
    "generation_config.json": ["eos_token_id", "temperature", "repetition_penalty", "suppress_tokens", "x"],
    "tokenizer_config.json": ["added_tokens_decoder", "chat_template", "bos_token", "model_max_length", "eos_token"],
    "added_tokens.json": ["a"],
    "vocab.json": ["a"],
    "chat_template.json": ["chat_template"],
    "model.safetensors.index.json": ["metadata", "weight_map"],
    "tokenizer.json": ["pre_tokenizer", "decoder", "model", "added_tokens"],
}
PLACES = [(name, field) for name, fields in FIELDS.items() for field in fields]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("model"))


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(PLACES), VALUES)
def test_any_value_anywhere_gives_a_report(directory: Path, place: tuple[str, str], value: Any) -> None:
    name, field = place
    path = directory / name
    before = path.read_bytes() if path.exists() else None
    document = tokenizer_json() if name == "tokenizer.json" else json.loads(before) if before else {}
    try:
        path.write_text(json.dumps({**document, field: value}))
        report = inspect(directory)
        json.dumps(report.as_json(), allow_nan=False)
        format_report(report)
    finally:
        path.unlink() if before is None else path.write_bytes(before)


@pytest.mark.parametrize("name", [*FIELDS, "chat_template.jinja", "model.safetensors"])
@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b"\xff\xfe", b"null", b'{"a": NaN}', b"[" * 100_000])
def test_any_damaged_file_gives_a_report(tmp_path: Path, name: str, raw: bytes) -> None:
    write(tmp_path)
    (tmp_path / name).write_bytes(raw)
    format_report(inspect(tmp_path))


@pytest.mark.parametrize("suffix", [".gguf", ".safetensors", ".bin", ".pt", ".onnx", ".txt"])
@pytest.mark.parametrize("raw", [b"", b"GGUF", b"GGUF\x03\0\0\0", bytes(100), b"\x80\x02cos\nsystem\n.", b"PK\x03\x04"])
def test_any_file_gives_a_report(tmp_path: Path, suffix: str, raw: bytes) -> None:
    path = tmp_path / f"x{suffix}"
    path.write_bytes(raw)
    report = inspect(path)
    assert report.refusals
    format_report(report)


@pytest.mark.parametrize(
    "template", ["{{ " + "(" * 3000 + "}}", "{{ 9**9**9**9 }}", "{% for m in messages %}", "\x1b[2J"]
)
def test_any_template_of_a_gguf_gives_a_report(tmp_path: Path, template: str) -> None:
    path = tmp_path / "x.gguf"
    path.write_bytes(llama_gguf(tokenizer__ggml__pre=text("qwen2"), tokenizer__chat_template=text(template)))
    assert "\x1b" not in format_report(inspect(path))
