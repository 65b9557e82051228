"""A seal tells whether the files are still those that were compared, and which report was written of them."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from pelton.errors import CheckpointError
from pelton.verification.files import FileRecord
from pelton.verification.seal import check_seal, find_seal, write_seal
from pelton.verification.verify import Report, dump

pytestmark = pytest.mark.unit


def make_report(*files: FileRecord) -> Report:
    return Report("a", "b", ["L0"], files={"source": [], "target": list(files)}, verdict="UNVERIFIED")


@pytest.mark.parametrize("is_directory", [True, False])
def test_changed_files_are_told(is_directory: bool, tmp_path: Path) -> None:
    target = tmp_path / "model.gguf"
    if is_directory:
        target.mkdir()
    else:
        target.write_bytes(b"x")
    one, two = FileRecord("one", 1, "aa"), FileRecord("two", 1, "bb")
    assert check_seal(target, [one, two]) == []
    report = make_report(one, two)
    path = write_seal(target, report.as_json(), dump(report))
    assert path == find_seal(target)
    told = json.loads(path.read_text())
    assert told["report_sha256"] == hashlib.sha256(dump(report).encode()).hexdigest()
    assert (told["verdict"], told["not_compared"]) == ("UNVERIFIED", ["L1", "L2", "L3", "L4", "L5"])
    assert check_seal(target, [one, two, FileRecord("verification.json", 9, "cc")]) == []
    changed = check_seal(target, [one, FileRecord("two", 1, "bc"), FileRecord("three", 1, "dd")])
    assert [finding.id for finding in changed] == ["L0.SEAL:three", "L0.SEAL:two"]


def test_a_seal_of_another_form_is_refused(tmp_path: Path) -> None:
    (tmp_path / "verification.json").write_text('{"target": [1]}')
    with pytest.raises(CheckpointError, match="expected hashes by name"):
        check_seal(tmp_path, [])


def test_a_place_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    report = make_report()
    with pytest.raises(CheckpointError, match="cannot be written"):
        write_seal(tmp_path / "none" / "m.gguf", report.as_json(), dump(report))
