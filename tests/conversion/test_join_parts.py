"""Parts become one file of the same tensors; what is one already is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.conversion.test_restore import make_quantized, read_tensors, run, split

from pelton.checkpoint.checkpoint import open_checkpoint
from pelton.checkpoint.gguf.checkpoint import GgufCheckpoint
from pelton.errors import CheckpointError

pytestmark = pytest.mark.cpu


def test_parts_become_one_file(tmp_path: Path) -> None:
    make_quantized(tmp_path / "a.gguf")
    ledger = run(split(tmp_path / "a.gguf", tmp_path / "parts"), tmp_path / "b.gguf")
    assert len(ledger["source"]["files"]) == 2  # type: ignore[index]
    assert read_tensors(tmp_path / "b.gguf") == read_tensors(tmp_path / "a.gguf")
    with open_checkpoint(tmp_path / "a.gguf") as one, open_checkpoint(tmp_path / "b.gguf") as two:
        assert isinstance(one, GgufCheckpoint)
        assert isinstance(two, GgufCheckpoint)
        assert two.metadata.keys() - one.metadata.keys() == {"pelton.conversion"}
        assert one.spec == two.spec


def test_one_file_is_one_already(tmp_path: Path) -> None:
    make_quantized(tmp_path / "a.gguf")
    with pytest.raises(CheckpointError, match="is a GGUF already"):
        run(tmp_path / "a.gguf", tmp_path / "b.gguf")
    with pytest.raises(CheckpointError, match="is a GGUF already"):
        run(split(tmp_path / "a.gguf", tmp_path / "parts"), tmp_path / "b.gguf", scheme="BF16")
