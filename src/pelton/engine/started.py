"""An engine process that has been started and not been spoken to: it imports, and waits for Hello on its socket.

Starting it needs nothing but the command, so a server does it first of all, and imports its own half meanwhile. Light
on purpose: what this module imports is paid before the process starts.
"""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from pelton.errors import TransferError


@dataclass(frozen=True)
class Started:
    """A process and our end of its socket. Whoever takes neither over must `discard` them."""

    process: subprocess.Popen[bytes]
    sock: socket.socket

    @property
    def is_running(self) -> bool:
        """Whether the process has not ended."""
        return self.process.poll() is None

    def discard(self) -> None:
        """End the process, which has nothing to lose, and wait for it."""
        self.process.kill()
        self.process.wait()
        self.sock.close()


def start_process(command: Sequence[str]) -> Started:
    """Start `command` with the number of its socket as one more argument. Raises TransferError if it cannot."""
    ours, theirs = socket.socketpair()
    try:
        fd = theirs.fileno()
        # A process group of its own, so that Ctrl-C in the server's terminal does not reach it while it starts.
        process = subprocess.Popen([*command, str(fd)], pass_fds=(fd,), stdin=subprocess.DEVNULL, process_group=0)
    except OSError as error:
        ours.close()
        raise TransferError(f"engine process: {command[0]} cannot be started: {error}.") from error
    finally:
        theirs.close()
    return Started(process, ours)
