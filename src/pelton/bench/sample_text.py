"""Texts to measure quality on: source code and English that exist wherever Python does.

They belong to Python's standard library and so change a little with its version; results name it.
"""

from __future__ import annotations

import argparse
import platform
from dataclasses import dataclass
from pathlib import Path
from pydoc_data import topics

from pelton.errors import ConfigError
from pelton.tokenization import Tokenizer


@dataclass(frozen=True, slots=True)
class SampleText:
    """A text, and what it is called in results and messages."""

    name: str
    content: str

    def encode(self, tokenizer: Tokenizer, count: int) -> list[int]:
        """Its first `count` token ids. Raises ConfigError if it is too short."""
        token_ids = tokenizer.encode(self.content, add_special_tokens=False)
        if len(token_ids) < count:
            raise ConfigError(
                f"--text: {self.name} has {len(token_ids)} tokens, --positions asks for {count}. Give a longer one."
            )
        return token_ids[:count]


def get_default_texts() -> list[SampleText]:
    """Python source (argparse) and English (the chapter on types of the language reference)."""
    source = Path(argparse.__file__).read_text(encoding="utf-8")
    version = platform.python_version()
    return [
        SampleText(f"python source (argparse {version})", source),
        SampleText(f"english (language reference {version}, types)", topics.topics["types"]),
    ]


def read_text(path: Path) -> SampleText:
    """The text of a file. Raises ConfigError if it cannot be read."""
    try:
        return SampleText(str(path), path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(f"--text: {path} cannot be read ({why}). Give a UTF-8 text file.") from error
