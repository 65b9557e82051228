"""When the answer to a request must be whole: what its body and its head say, whichever is sooner."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from pelton.errors import DeadlineExceeded, RequestError

HEADER: Final = "x-request-timeout-ms"
MAX_TIMEOUT_S: Final = 7 * 86400.0


def read_deadline(header: str | None, timeout_s: float | None, start_s: float) -> float:
    """The deadline on the clock of `start_s`, when the request came; 0 for none. Raises RequestError."""
    timeouts = []
    if timeout_s is not None:
        if not 0 < timeout_s <= MAX_TIMEOUT_S:
            raise RequestError(
                f"timeout: {timeout_s} seconds, expected more than 0 and at most {MAX_TIMEOUT_S:.0f}.", param="timeout"
            )
        timeouts.append(timeout_s)
    if header is not None:
        is_number = header.isascii() and header.isdecimal() and len(header) < 12
        if not is_number or not 0 < int(header) <= MAX_TIMEOUT_S * 1000:
            raise RequestError(
                f"{HEADER}: {header[:32]!r}, expected a whole number of milliseconds, more than 0 and at most "
                f"{MAX_TIMEOUT_S * 1000:.0f}.",
                param=HEADER,
            )
        timeouts.append(int(header) / 1000)
    return start_s + min(timeouts) if timeouts else 0.0


@asynccontextmanager
async def within(deadline_s: float) -> AsyncIterator[None]:
    """Work that ends by DeadlineExceeded if it takes longer than until `deadline_s` of time.monotonic; 0 is never."""
    if not deadline_s:
        yield
        return
    try:
        async with asyncio.timeout(deadline_s - time.monotonic()):
            yield
    except TimeoutError as error:
        raise DeadlineExceeded("The request's deadline passed before it came to the engine.") from error
