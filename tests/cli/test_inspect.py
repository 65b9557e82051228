import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from tests.fakes import TinyModel
from tests.inspection.models import as_rows, write
from tests.model_files import safetensors_of

from pelton.checkpoint.outgoing import Outgoing
from pelton.checkpoint.pytorch.writer import write_pytorch
from pelton.cli.main import main

pytestmark = pytest.mark.unit


def test_a_screen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(write(tmp_path))]) == 0
    assert "architecture  llama" in capsys.readouterr().out


def test_json_tensors_and_hashes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path)
    assert main(["inspect", str(tmp_path), "--json", "--tensors", "--hash"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["tensors"]["model.norm.weight"]["num_zero"] == 0
    assert len(document["sha256"]) == 5
    assert main(["inspect", str(tmp_path), "--tensors"]) == 0
    assert capsys.readouterr().out.startswith("tensor ")


def test_what_is_refused_is_shown_and_ends_with_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.safetensors"
    path.write_bytes(safetensors_of({"a": np.zeros((2, 3))}))
    assert main(["inspect", str(path), "--tensors"]) == 1
    out = capsys.readouterr().out
    assert "1 tensor, 24 B" in out
    assert "a       2 x 3  F32        24        0        0     0      6           0" in out
    assert "refused: this model cannot be served" in out


def test_no_such_path(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(tmp_path / "none.gguf")]) == 2
    assert "no such file" in capsys.readouterr().err


def test_a_pass_compares_checksums(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arrays = TinyModel().tensors()
    tensors = [Outgoing(name, array.shape, "F32", partial(as_rows, array)) for name, array in arrays.items()]
    (write(tmp_path) / "model.safetensors").unlink()
    write_pytorch(tmp_path, tensors)
    assert main(["inspect", str(tmp_path), "--tensors"]) == 0
    path = tmp_path / "pytorch_model.bin"
    raw = bytearray(path.read_bytes())
    at = raw.index(arrays["lm_head.weight"].tobytes())
    raw[at] ^= 1
    path.write_bytes(raw)
    assert main(["inspect", str(tmp_path)]) == 0
    assert main(["inspect", str(tmp_path), "--tensors"]) == 1
    assert "has the checksum" in capsys.readouterr().out.partition("refused:")[2]
