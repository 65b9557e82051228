"""From one format to another and back: the same tensors, byte for byte, and the same model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.models.architectures import CASES, make_model

from pelton.checkpoint.checkpoint import open_checkpoint
from pelton.conversion.convert import Options, Progress, convert
from pelton.errors import CheckpointError

pytestmark = pytest.mark.cpu

# What a GGUF cannot say of these, so that converting them without --accept-loss is refused.
UNSAYABLE = {
    "llama-tied-biased": "activation",
    "llama-dynamic": "layers[0].rope",
    "qwen2-windows": "layers[2].window",
    "mixtral": "activation",
    "qwen2_moe": "layers[0].window",
    "qwen3_moe-windows": "layers[0].window",
    "smollm3": "layers[1].rope",
}


def read_all(path: Path) -> dict[str, tuple[Any, ...]]:
    with open_checkpoint(path) as checkpoint:
        tensors = {name: checkpoint.read(name) for name in checkpoint.tensors}
        return {name: (t.shape, t.scheme, t.payload.tobytes()) for name, t in tensors.items()}


def run(source: Path, target: Path, to: Any, **options: Any) -> dict[str, Any]:
    return convert(source, target, to, Options(**options), Progress())


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", CASES)
def test_there_and_back_is_the_same(name: str, dtype: str, tmp_path: Path) -> None:
    import torch  # noqa: PLC0415

    make_model(name, tmp_path / "hf", getattr(torch, dtype))
    run(tmp_path / "hf", tmp_path / "model.gguf", "gguf", accepted=("all",) if name in UNSAYABLE else ())
    run(tmp_path / "model.gguf", tmp_path / "back", "safetensors")
    before, after = read_all(tmp_path / "hf"), read_all(tmp_path / "back")
    with open_checkpoint(tmp_path / "hf") as ours, open_checkpoint(tmp_path / "back") as theirs:
        assert ours.spec == theirs.spec
    if "lm_head.weight" in before and "lm_head.weight" not in after:
        del before["lm_head.weight"]  # tied
    assert after == before
    assert (tmp_path / "back" / "config.json").read_bytes() == (tmp_path / "hf" / "config.json").read_bytes()


@pytest.mark.parametrize("name", UNSAYABLE)
def test_what_a_gguf_cannot_say_is_refused_by_name(name: str, tmp_path: Path) -> None:
    make_model(name, tmp_path / "hf")
    with pytest.raises(CheckpointError) as caught:
        run(tmp_path / "hf", tmp_path / "model.gguf", "gguf")
    assert UNSAYABLE[name] in str(caught.value)
    assert list(tmp_path.iterdir()) == [tmp_path / "hf"]
