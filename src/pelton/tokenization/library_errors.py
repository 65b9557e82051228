"""Turns what the `tokenizers` library throws while a tokenizer is built into an error that names the file.

The library raises the bare class `Exception` for bad input and a panic, which is no `Exception` at all, where it did
not expect one. Both are about the checkpoint here; any other class passes.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from pelton.errors import CheckpointError

_MAX_CHARACTERS = 300


@contextmanager
def blame(where: str) -> Iterator[None]:
    """Raise CheckpointError for what the library says about the data while the block runs."""
    try:
        yield
    except BaseException as error:
        if (
            type(error) is Exception
            or type(error).__name__ == "PanicException"
            or isinstance(error, TypeError | UnicodeError)
        ):
            raise CheckpointError(f"{where}: the tokenizer cannot be built: {_shown(str(error))}.") from error
        raise


def _shown(text: str) -> str:
    """What the library says quotes the file: long pieces are cut, and nothing of them acts on a terminal."""
    cut = text if len(text) <= _MAX_CHARACTERS else f"{text[:_MAX_CHARACTERS]}..."
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in cut)
