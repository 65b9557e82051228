"""Turns what the `tokenizers` library throws while a tokenizer is built into an error that names the file.

The library raises the bare class `Exception` for bad input and a panic, which is no `Exception` at all, where it did
not expect one. Both are about the checkpoint here; any other class passes.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from pelton.errors import CheckpointError


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
            raise CheckpointError(f"{where}: the tokenizer cannot be built: {error}.") from error
        raise
