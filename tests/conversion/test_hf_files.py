"""What goes with a model and what is left, with the reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from pelton.conversion.hf_files import is_adapter, list_left, read_carried

pytestmark = pytest.mark.unit


def test_files_of_the_model_are_carried_and_others_are_named(tmp_path: Path) -> None:
    for name in ("config.json", "tokenizer.json", "LICENSE", "model.safetensors", "modeling_x.py", "optimizer.json"):
        (tmp_path / name).write_text(name)
    (tmp_path / "additional_chat_templates").mkdir()
    (tmp_path / "additional_chat_templates" / "rag.jinja").write_text("{{ documents }}")
    (tmp_path / "generation_config.json").write_text("")  # an empty file says nothing
    carried = read_carried(tmp_path)
    assert carried == {
        "LICENSE": b"LICENSE",
        "config.json": b"config.json",
        "tokenizer.json": b"tokenizer.json",
        "additional_chat_templates/rag.jinja": b"{{ documents }}",
    }
    left = list_left(tmp_path, carried)
    assert set(left) == {"modeling_x.py", "optimizer.json", "generation_config.json"}
    assert "never run" in left["modeling_x.py"]


def test_an_adapter_matters(tmp_path: Path) -> None:
    (tmp_path / "adapter_model.safetensors").write_text("x")
    assert "not merged" in list_left(tmp_path, {})["adapter_model.safetensors"]
    assert is_adapter("adapter_model.safetensors")
    assert not is_adapter("model.safetensors")
