"""Text that may change only on purpose: kept in files, compared whole, updated by `pytest --update-golden`."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Golden:
    """A folder of golden files."""

    folder: Path
    is_updating: bool = False

    def check(self, name: str, text: str) -> None:
        """Fail, showing the difference, unless `text` is what the file `name` holds. Writes the file when updating."""
        path = self.folder / name
        if self.is_updating:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text + "\n", encoding="utf-8")
            return
        assert path.exists(), f"{path} does not exist. Run `pytest --update-golden` and review what it writes."
        expected = path.read_text(encoding="utf-8").removesuffix("\n")
        difference = difflib.unified_diff(expected.splitlines(), text.splitlines(), "golden", "given", lineterm="", n=1)
        assert text == expected, f"{name} differs; if that is meant: pytest --update-golden\n" + "\n".join(difference)
