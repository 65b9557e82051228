"""The SHA-256 of a whole file, read through a small buffer: no page of it stays in the memory of the process."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

BUFFER_BYTES = 1 << 20


def compute_sha256(path: Path, before_each: Callable[[], None] = lambda: None) -> str:
    """As hexadecimal digits. Raises OSError. Takes 0.5 to 2 s for each GB, without the GIL.

    `before_each` is called before each MiB is read; what it raises ends the reading.
    """
    digest, buffer = hashlib.sha256(), bytearray(BUFFER_BYTES)
    with path.open("rb", buffering=0) as file, memoryview(buffer) as view:
        while True:
            before_each()
            num_bytes = file.readinto(buffer)
            if not num_bytes:
                return digest.hexdigest()
            digest.update(view[:num_bytes])
