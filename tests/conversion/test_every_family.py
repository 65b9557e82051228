"""Every family in every form: the same logits, and a stranger's GGUF comes back the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from tests.conversion.test_convert import UNSAYABLE, read_all, run
from tests.conversion.test_to_hf import say
from tests.models.architectures import CASES, make_model
from tests.models.test_parity import load

from pelton.backends.reference import ReferenceBackend
from pelton.checkpoint.checkpoint import open_checkpoint
from pelton.checkpoint.gguf.checkpoint import GgufCheckpoint
from pelton.checkpoint.gguf.writer import write_gguf
from pelton.conversion.restore import SIDE_FILE
from pelton.conversion.to_gguf import make_gguf
from pelton.runner.direct_step import logits_of

pytestmark = pytest.mark.cpu

SAYABLE = [name for name in CASES if name not in UNSAYABLE]
ROUNDED = {"llama-llama3", "gemma2", "gemma3"}  # a GGUF's factors and scales are float32
TOKENS = [3, 9, 27, 2, 11, 5, 8, 1, 44, 17, 30, 6]


def logits(path: Path) -> np.ndarray:
    return logits_of(load(path, ReferenceBackend("float32")), TOKENS, [2, 1], chunk=64, max_blocks=2)


def write_strange(source: Path, path: Path) -> None:
    """A GGUF that carries nothing of ours."""
    with open_checkpoint(source) as checkpoint:
        output = make_gguf(checkpoint)
        keys = {key: value for key, value in output.metadata.items() if not key.startswith("pelton.")}
        write_gguf(path, keys, output.tensors)


@pytest.mark.parametrize("name", SAYABLE)
def test_logits_are_the_same_in_every_form(name: str, tmp_path: Path) -> None:
    make_model(name, tmp_path / "hf", torch.bfloat16)
    expected = logits(tmp_path / "hf")
    rounding = 1e-5 if name in ROUNDED else 0
    write_strange(tmp_path / "hf", tmp_path / "m.gguf")
    np.testing.assert_allclose(logits(tmp_path / "m.gguf"), expected, rtol=0, atol=rounding)
    for to in ("safetensors", "pytorch"):
        run(tmp_path / "m.gguf", tmp_path / to, to)
        np.testing.assert_allclose(logits(tmp_path / to), expected, rtol=0, atol=rounding)
    theirs = say(tmp_path / "hf")
    torch.testing.assert_close(say(tmp_path / "safetensors"), theirs, rtol=0, atol=1e-4)


@pytest.mark.parametrize("name", SAYABLE)
def test_a_strangers_gguf_comes_back(name: str, tmp_path: Path) -> None:
    make_model(name, tmp_path / "hf", torch.bfloat16)
    write_strange(tmp_path / "hf", tmp_path / "m.gguf")
    run(tmp_path / "m.gguf", tmp_path / "made", "safetensors")
    run(tmp_path / "made", tmp_path / "same.gguf", "gguf")
    assert (tmp_path / "same.gguf").read_bytes() == (tmp_path / "m.gguf").read_bytes()
    (tmp_path / "made" / SIDE_FILE).unlink()
    run(tmp_path / "made", tmp_path / "new.gguf", "gguf")
    assert read_all(tmp_path / "new.gguf") == read_all(tmp_path / "m.gguf")
    with open_checkpoint(tmp_path / "m.gguf") as one, open_checkpoint(tmp_path / "new.gguf") as two:
        assert one.spec == two.spec
        assert isinstance(one, GgufCheckpoint)
        assert isinstance(two, GgufCheckpoint)
        ours = {key: value for key, value in one.metadata.items() if key != "general.name"}
        assert ours.keys() <= two.metadata.keys()
        assert all(np.array_equal(value, two.metadata[key]) for key, value in ours.items())  # type: ignore[arg-type]
