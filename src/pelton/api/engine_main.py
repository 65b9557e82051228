"""The engine process: `python -m pelton.api.engine_main FD`, started by the server over an inherited socket."""

from __future__ import annotations

import faulthandler
import socket
import sys

from pelton.api.assemble import make_engine
from pelton.engine.process import run_engine
from pelton.errors import ConfigError


def main(arguments: list[str]) -> int:
    """Serve the engine on the socket whose number is the only argument; returns the exit code."""
    if len(arguments) != 1 or not arguments[0].isdigit():
        raise ConfigError("engine process: started without the number of its socket. Use `pelton serve`.")
    faulthandler.enable()  # a crash in native code says on stderr where Python was
    with socket.socket(fileno=int(arguments[0])) as sock:
        return run_engine(sock, make_engine)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
