"""Requests that ask the oracle for trouble: `\x01crash:3;` anywhere in a prompt, in bytes of its own tokenizer.

    crash     the process dies of a segmentation fault     exit   it ends with code 3
    raise     the step raises                              hang   the step sleeps forever
    spin      the step computes forever                    none   no token is chosen, as if logits were not numbers

The number is how many tokens the answer has by then. Only the oracle looks for these; a model cannot be asked.
"""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Iterable
from typing import Final, NamedTuple

KINDS: Final = ("crash", "exit", "raise", "hang", "spin", "none")
_MARK: Final = re.compile(rb"\x01(" + "|".join(KINDS).encode() + rb"):(\d{1,6});")
NO_TOKEN: Final = -1
EXIT_CODE: Final = 3


class Fault(NamedTuple):
    """What happens when the answer has `after` tokens."""

    kind: str
    after: int


class OracleFault(Exception):
    """What a step raises that was asked to."""


def find_fault(prompt_token_ids: Iterable[int]) -> Fault | None:
    """The trouble that a prompt asks for."""
    match = _MARK.search(bytes(token_id if token_id < 256 else 0 for token_id in prompt_token_ids))
    return None if match is None else Fault(match[1].decode(), int(match[2]))


def commit(fault: Fault) -> int:
    """Do it. Returns, if at all, what is chosen in place of a token."""
    match fault.kind:
        case "crash":
            os.kill(os.getpid(), signal.SIGSEGV)
        case "exit":
            os._exit(EXIT_CODE)
        case "raise":
            raise OracleFault("the oracle was asked to raise")
        case "hang":
            while True:
                time.sleep(3600)
        case "spin":
            while True:
                pass
    return NO_TOKEN
