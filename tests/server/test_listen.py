"""The port is taken, or refused with a remedy, before anything else happens."""

from __future__ import annotations

import socket

import pytest

from pelton.errors import ConfigError
from pelton.server.listen import bind_socket, describe_address, explain

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
