"""Every file is recorded, and the target's word about its source is checked."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest
from tests.models.architectures import make_model

from pelton.checkpoint.checkpoint import open_checkpoint
from pelton.errors import CheckpointError
from pelton.verification.files import FileRecord, compare_files, list_files, record_files

pytestmark = pytest.mark.cpu


def test_all_files_are_hashed(tmp_path: Path) -> None:
    make_model("llama", tmp_path)
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "x.txt").write_text("hello")
    counted: list[int] = []
    with open_checkpoint(tmp_path) as checkpoint:
        records = record_files(checkpoint, counted.append)
    by_name = {record.name: record for record in records}
    assert by_name["notes/x.txt"] == FileRecord("notes/x.txt", 5, hashlib.sha256(b"hello").hexdigest())
    assert sum(counted) == sum(record.nbytes for record in records)
    assert "model.safetensors" in by_name


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    make_model("llama", tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with open_checkpoint(tmp_path) as checkpoint, pytest.raises(CheckpointError, match="neither a file"):
        list_files(checkpoint)


def test_another_source_is_noticed() -> None:
    records = [FileRecord("a", 1, "11"), FileRecord("b", 1, "22")]
    assert compare_files(records, {"a": "11", "c": "33"}) == []
    (finding,) = compare_files(records, {"b": "23"})
    assert (finding.id, finding.weight) == ("L0.SOURCE:b", "note")
