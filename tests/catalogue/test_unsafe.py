"""Files that attack their reader: what is refused, what has no effect, and what is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.catalogue.configs import make_config, read
from tests.fakes import CHAT_TEMPLATE
from tests.inspection.models import change, found, inspect, write
from tests.model_files import f32, flag, i32s, llama_gguf, strings, text, u32

from pelton.checkpoint.checkpoint import open_checkpoint
from pelton.errors import CheckpointError, RequestError
from pelton.tokenization.chat_template import TemplateWorker
from pelton.tokenization.make import make_tokenizer

pytestmark = pytest.mark.unit

WRONG_TYPES: dict[str, bytes] = {
    "ARCH__block_count": text("2"),
    "ARCH__embedding_length": f32(16.0),
    "ARCH__attention__layer_norm_rms_epsilon": flag(1),
    "ARCH__rope__freq_base": strings(["500"]),
    "tokenizer__ggml__tokens": i32s([1] * 8),
    "tokenizer__ggml__token_type": strings(list("abcdefgh")),
    "tokenizer__ggml__merges": u32(3),
    "tokenizer__ggml__eos_token_id": text("7"),
    "tokenizer__ggml__model": u32(1),
    "general__alignment": f32(32.0),
}


@pytest.mark.parametrize("key", WRONG_TYPES)
def test_a_value_of_another_type_is_refused(tmp_path: Path, key: str) -> None:
    """N4."""
    path = tmp_path / "x.gguf"
    path.write_bytes(llama_gguf(tokenizer__ggml__pre=text("qwen2"), **{key: WRONG_TYPES[key]}))

    def use() -> None:
        with open_checkpoint(path) as checkpoint:
            _ = checkpoint.generation
            make_tokenizer(checkpoint.tokenizer_source)

    with pytest.raises(CheckpointError, match=key.rpartition("__")[2]):
        use()


FIELDS: dict[str, tuple[Any, bool]] = {  # value, and whether the model is refused
    "model_file": ("modeling.py", True),
    "transformers_weights": ("../../other/model.safetensors", True),
    "custom_pipelines": ({"x": {"impl": "x.Pipeline"}}, True),
    "trust_remote_code": (True, True),
    "auto_map": ({"AutoModelForCausalLM": "someone/else--modeling.Model"}, False),
    "_attn_implementation_internal": ("someone/kernels", False),
}


@pytest.mark.parametrize("field", FIELDS)
def test_a_field_that_names_code_or_a_file_is_refused_and_told(tmp_path: Path, field: str) -> None:
    """N7 to N9."""
    value, is_refused = FIELDS[field]
    write(tmp_path, config={field: value})
    (tmp_path / "modeling.py").write_text("raise SystemExit('run')")
    assert "config.code" in found(tmp_path)
    assert bool(inspect(tmp_path).refusals) == is_refused
    if is_refused:
        with pytest.raises(CheckpointError, match=field):
            read(make_config("llama", **{field: value}))
    else:
        assert read(make_config("llama", **{field: value})) == read(make_config("llama"))


ESCAPES = [
    "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "{{ cycler.__init__.__globals__.os.popen('id').read() }}",
    "{{ messages | attr('__class__') }}",
    "{{ raise_exception.__globals__ }}",
]


@pytest.mark.parametrize("template", ESCAPES)
def test_a_template_that_reaches_out_gets_nothing_and_is_told(tmp_path: Path, template: str) -> None:
    """N10."""
    change(write(tmp_path) / "tokenizer_config.json", {"chat_template": CHAT_TEMPLATE + template})
    assert "template.escape" in found(tmp_path)
    with TemplateWorker() as worker:
        try:
            rendered = worker.render(template, [{"role": "user", "content": "a"}])
        except RequestError:
            return
    assert rendered == ""
