"""What a verified target carries: the verdict, the report's hash, and the hashes of the files it was said of.

`verification.json` lies in a directory, or beside a GGUF as `NAME.verification.json`, so that writing it changes no
byte that was compared. Whoever reads it later can tell whether the report is that report and the files those files.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pelton.checkpoint.strict_json import parse_object
from pelton.errors import CheckpointError
from pelton.verification.files import FileRecord
from pelton.verification.finding import Finding

SEAL: Final = "verification.json"


def find_seal(target: Path) -> Path:
    """Where the seal of a target is."""
    return target / SEAL if target.is_dir() else target.with_name(f"{target.name}.{SEAL}")


def write_seal(target: Path, told: Mapping[str, Any], report: str) -> Path:
    """Write the seal of `target`; where. `told` is the report as plain values, `report` its text, which is hashed."""
    path = find_seal(target)
    seal = {
        "version": 1,
        **{name: told[name] for name in ("made_by", "verdict", "levels", "not_compared")},
        "report_sha256": hashlib.sha256(report.encode()).hexdigest(),
        "source": _hashes(told["files"].get("source", ())),
        "target": _hashes(told["files"].get("target", ())),
        "command": f"pelton verify {told['source']} {told['target']}",
    }
    try:
        path.write_text(json.dumps(seal, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be written: {error.strerror}.") from error
    return path


def _hashes(records: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    return {each["name"]: each["sha256"] for each in records if each["name"] != SEAL}


def check_seal(target: Path, files: Sequence[FileRecord]) -> list[Finding]:
    """The target's files that are not those its seal was written for. Nothing without a seal."""
    path = find_seal(target)
    if not path.is_file():
        return []
    told = parse_object(path.read_bytes(), str(path)).get("target", {})
    if not isinstance(told, dict):
        raise CheckpointError(f"{path}: target is {told!r}; expected hashes by name. Remove the file and verify again.")
    here = {record.name: record.sha256 for record in files if record.name != SEAL}
    return [
        Finding(f"L0.SEAL:{name}", f"{name} is not the file that {path.name} was written for", "note")
        for name in sorted(told.keys() | here.keys())
        if told.get(name) != here.get(name)
    ]
