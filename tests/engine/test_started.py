"""A process that waits for its first message: it gets its socket, and ends when nobody wants it."""

import sys

import pytest

from pelton.engine.started import start_process
from pelton.errors import TransferError

pytestmark = pytest.mark.cpu  # real processes

ECHO = "import socket, sys; s = socket.socket(fileno=int(sys.argv[1])); s.sendall(s.recv(100)); s.recv(100)"


def test_it_speaks_over_the_socket_whose_number_it_gets():
    started = start_process([sys.executable, "-c", ECHO])
    started.sock.settimeout(30)
    started.sock.sendall(b"hello")
    assert started.sock.recv(100) == b"hello"
    assert started.is_running
    started.discard()
    assert not started.is_running
    started.discard()


def test_a_command_that_is_not_there_is_an_error():
    with pytest.raises(TransferError, match="cannot be started"):
        start_process(["/does/not/exist"])
