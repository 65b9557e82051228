"""The socket that the server listens on, taken before anything costly is done."""

from __future__ import annotations

import errno
import resource
import socket
from typing import Final

from pelton.errors import ConfigError

SEND_BUFFER_BYTES: Final = (
    128 * 1024
)  # of each connection; the kernel would let megabytes wait for one that is not read
OTHER_FILES: Final = 64  # that a server has open beside its connections
MAX_CONNECTIONS: Final = 16384


def bind_socket(host: str, port: int) -> socket.socket:
    """A bound TCP socket that does not listen yet: until it does, clients are refused rather than kept waiting.

    Raises ConfigError that says what to do about a port that is taken or not allowed, or a host that is not here.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError) as error:
        raise ConfigError(f"--host: {host!r} is not a host name or address that is known here ({error}).") from error
    bound = socket.socket(family, kind, protocol)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)  # connections inherit it
        bound.bind(address)
        if port != 0:
            check_free(bound, address)
    except OSError as error:
        bound.close()
        raise explain(error, host, port) from error
    bound.setblocking(False)
    return bound


def choose_max_connections() -> int:
    """How many connections this process can have. Lets it open as many files as the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_CONNECTIONS + OTHER_FILES
    most = wanted if hard == resource.RLIM_INFINITY else min(hard, wanted)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        soft = most
    return min(MAX_CONNECTIONS, max(1, (wanted if soft == resource.RLIM_INFINITY else soft) - OTHER_FILES))


def check_free(bound: socket.socket, address: tuple[object, ...]) -> None:
    """Raise OSError (EADDRINUSE) if another process listens at `address`, which some systems let two sockets bind."""
    with socket.socket(bound.family, bound.type) as probe:
        probe.settimeout(0.2)
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(str(address[0]), address[0])
        if probe.connect_ex((host, *address[1:])) == 0:
            raise OSError(errno.EADDRINUSE, "address in use")


def explain(error: OSError, host: str, port: int) -> ConfigError:
    """The error of a bind or listen as a sentence with the remedy."""
    if error.errno == errno.EADDRINUSE:
        return ConfigError(
            f"--port: {port} on {host} is in use by another program. Give another one (--port {port % 65535 + 1}, or "
            "--port 0 for any free one), or end that program."
        )
    if error.errno == errno.EACCES:
        return ConfigError(f"--port: {port} may not be used by this user. Give one above 1023.")
    if error.errno == errno.EADDRNOTAVAIL:
        return ConfigError(f"--host: {host} is not an address of this machine. Use 127.0.0.1, or 0.0.0.0 for all.")
    return ConfigError(f"--host, --port: cannot listen on {host} port {port}: {error.strerror}.")


def describe_address(bound: socket.socket) -> str:
    """The URL under which a bound socket is reached from this machine."""
    host, port = bound.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
