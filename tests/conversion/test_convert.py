"""From one format to another and back: the same tensors, byte for byte, and the same model."""

from __future__ import annotations

import errno
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.models.architectures import CASES, make_model

from pelton.checkpoint.checkpoint import open_checkpoint
from pelton.checkpoint.tensor_file import note_of
from pelton.conversion.convert import FORMATS, Options, Progress, convert
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


KILLED = """
import os, signal, sys
from pathlib import Path
from pelton.checkpoint import tensor_file
from pelton.checkpoint.tensor_file import note_of
from pelton.conversion.convert import FORMATS, Options, Progress, convert
tensor_file.STEP_BYTES = 1 << 14
left = int(sys.argv[4])
stages = []
def count(num_bytes):
    global left
    left -= num_bytes if "writing" in stages else 0
    if left < 0:
        os.kill(os.getpid(), signal.SIGKILL)
progress = Progress(lambda stage, num_bytes: stages.append(stage), count)
convert(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], Options(), progress)
"""


def kill_in_the_middle(source: Path, target: Path, to: str) -> None:
    command = [sys.executable, "-c", KILLED, str(source), str(target), to, str(1 << 17)]
    assert subprocess.run(command, check=False, timeout=60).returncode == -signal.SIGKILL
    assert not target.exists()


@pytest.mark.parametrize("to", ["gguf", "safetensors"])
def test_a_killed_conversion_is_taken_up(to: str, tmp_path: Path) -> None:
    make_model("llama", tmp_path / "hf")
    if to == "safetensors":
        run(tmp_path / "hf", tmp_path / "m.gguf", "gguf")
    source = tmp_path / ("hf" if to == "gguf" else "m.gguf")
    run(source, tmp_path / "whole", to)
    kill_in_the_middle(source, tmp_path / "out", to)
    part = tmp_path / ".out.partial"
    file = part / "model.safetensors" if to == "safetensors" else part
    known = int(note_of(file).read_text())
    assert 0 < known <= file.stat().st_size
    before = file.read_bytes()[:known]
    run(source, tmp_path / "out", to)
    assert not list(tmp_path.glob(".*"))
    one, two = tmp_path / "out", tmp_path / "whole"
    for path in [one] if one.is_file() else one.iterdir():
        other = two if one.is_file() else two / path.name
        assert path.read_bytes() == other.read_bytes(), path.name
    made = one if one.is_file() else one / "model.safetensors"
    assert made.read_bytes()[:known] == before


def test_another_source_begins_anew(tmp_path: Path) -> None:
    make_model("llama", tmp_path / "hf")
    kill_in_the_middle(tmp_path / "hf", tmp_path / "out", "gguf")
    make_model("qwen2", tmp_path / "other")
    run(tmp_path / "other", tmp_path / "out", "gguf")
    run(tmp_path / "other", tmp_path / "whole", "gguf")
    assert (tmp_path / "out").read_bytes() == (tmp_path / "whole").read_bytes()


def test_a_disk_that_fills_up_leaves_nothing(tmp_path: Path) -> None:
    make_model("llama", tmp_path / "hf")
    stages: list[str] = []

    def fill(num_bytes: int) -> None:
        if "writing" in stages:
            raise OSError(errno.ENOSPC, "No space left on device")

    progress = Progress(lambda stage, num_bytes: stages.append(stage), fill)
    for to in FORMATS:
        stages.clear()
        with pytest.raises(CheckpointError, match=r"out: cannot be written: No space left on device\."):
            convert(tmp_path / "hf", tmp_path / "out", to, Options(), progress)
        assert list(tmp_path.iterdir()) == [tmp_path / "hf"]


def test_a_source_is_not_replaced_by_what_is_made_of_it(tmp_path: Path) -> None:
    make_model("llama", tmp_path / "hf")
    with pytest.raises(CheckpointError, match="holds or lies in the source"):
        run(tmp_path / "hf", tmp_path / "hf", "safetensors", force=True)
    assert (tmp_path / "hf" / "config.json").exists()
