"""The port is taken, or refused with a remedy, before anything else happens."""

from __future__ import annotations

import resource
import socket

import pytest

from pelton.errors import ConfigError
from pelton.server.listen import (
    MAX_CONNECTIONS,
    OTHER_FILES,
    SEND_BUFFER_BYTES,
    bind_socket,
    choose_max_connections,
    describe_address,
    explain,
)

pytestmark = pytest.mark.unit


def test_a_port_in_use_is_named_with_the_remedy() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"--port: {port} on 127.0.0.1 is in use by another program"):
            bind_socket("127.0.0.1", port)


def test_a_bound_socket_refuses_until_it_listens() -> None:
    with bind_socket("127.0.0.1", 0) as bound:
        host, port = bound.getsockname()
        assert describe_address(bound) == f"http://127.0.0.1:{port}"
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((host, port), timeout=5)
        bound.listen()
        socket.create_connection((host, port), timeout=5).close()


def test_a_port_can_be_used_again_right_after_a_server() -> None:
    with socket.create_server(("127.0.0.1", 0)) as first:
        port = first.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)):
            first.accept()[0].close()
    bind_socket("127.0.0.1", port).close()


@pytest.mark.parametrize("host", ["no such host", "192.0.2.1"])
def test_a_host_that_is_not_here_is_named(host: str) -> None:
    with pytest.raises(ConfigError, match=f"--host: '?{host}"):
        bind_socket(host, 0)


def test_other_errors_are_sentences_too() -> None:
    assert "above 1023" in str(explain(PermissionError(13, "denied"), "h", 80))
    assert "cannot listen on h port 80: odd" in str(explain(OSError(5, "odd"), "h", 80))


@pytest.mark.parametrize(
    ("soft", "hard", "most", "set_to"),
    [
        (1024, 4096, 4096 - OTHER_FILES, 4096),
        (1024, resource.RLIM_INFINITY, MAX_CONNECTIONS, MAX_CONNECTIONS + OTHER_FILES),
        (1 << 20, 1 << 20, MAX_CONNECTIONS, None),
        (resource.RLIM_INFINITY, resource.RLIM_INFINITY, MAX_CONNECTIONS, None),
        (32, 32, 1, None),
    ],
)
def test_connections_fit_into_the_files_that_may_be_open(
    monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, most: int, set_to: int | None
) -> None:
    limits = []
    monkeypatch.setattr(resource, "getrlimit", lambda _which: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda _which, both: limits.append(both))
    assert choose_max_connections() == most
    assert limits == ([] if set_to is None else [(set_to, hard)])


def test_what_the_kernel_keeps_for_a_client_is_bounded() -> None:
    with bind_socket("127.0.0.1", 0) as listening:
        listening.listen()
        listening.setblocking(True)
        with socket.create_connection(listening.getsockname()), listening.accept()[0] as accepted:
            assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) <= 4 * SEND_BUFFER_BYTES
