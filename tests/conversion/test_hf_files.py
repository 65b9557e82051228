"""What goes with a model and what is left, with the reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from pelton.conversion.hf_files import check_file_name, is_adapter, list_left, read_all, read_carried
from pelton.errors import CheckpointError

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
    (tmp_path / "adapter.safetensors").write_text("of something else")
    (tmp_path / ".cache").mkdir()
    (tmp_path / ".cache" / "x").write_text("")
    left = list_left(tmp_path, carried, [tmp_path / "model.safetensors"])
    assert set(left) == {"modeling_x.py", "optimizer.json", "generation_config.json", "adapter.safetensors"}
    assert "not those of this model" in left["adapter.safetensors"]
    assert "never run" in left["modeling_x.py"]


def test_an_adapter_matters(tmp_path: Path) -> None:
    (tmp_path / "adapter_model.safetensors").write_text("x")
    assert "not merged" in list_left(tmp_path, {}, [])["adapter_model.safetensors"]
    assert is_adapter("adapter_model.safetensors")
    assert not is_adapter("model.safetensors")


def test_a_copy_takes_everything_but_weights_and_code(tmp_path: Path) -> None:
    for name in ("modules.json", "1_Pooling/config.json", "model.safetensors", "run.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    assert sorted(read_all(tmp_path)) == ["1_Pooling/config.json", "modules.json"]


def test_links_to_outside_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x")
    model = tmp_path / "model"
    model.mkdir()
    (model / "README.md").symlink_to(tmp_path / "secret")
    assert read_carried(model) == {}
    assert "leads out" in list_left(model, {}, [])["README.md"]


def test_links_into_the_cache_of_downloads_are(tmp_path: Path) -> None:
    snapshot = tmp_path / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    (tmp_path / "blobs").mkdir()
    (tmp_path / "blobs" / "1").write_text("x")
    (snapshot / "README.md").symlink_to(tmp_path / "blobs" / "1")
    assert read_carried(snapshot) == {"README.md": b"x"}


@pytest.mark.parametrize(
    "name",
    [
        "../x",
        "/etc/x",
        "a/../../x",
        "a//b",
        "",
        ".ssh",
        "a\\b",
        "x.py",
        "model.safetensors",
        "a\nb",
        "a" * 300,
        "a/b/c/d",
    ],
)
def test_names_that_strangers_made_lead_nowhere(name: str) -> None:
    with pytest.raises(CheckpointError, match=r"m\.gguf: carries a file called"):
        check_file_name(name, "m.gguf")
