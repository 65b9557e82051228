"""The engine's end of the socket: waits as long as it may, and knows when nobody is left."""

import socket
from collections.abc import Iterator

import pytest

from pelton.core.messages import Abort, Drain, MessageReader, Progress, encode_message
from pelton.core.step import RequestId
from pelton.engine.channel import Channel, ServerGone

pytestmark = pytest.mark.unit


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, Channel]]:
    server, engine = socket.socketpair()
    with server, engine:
        yield server, Channel(engine)


def test_messages_arrive_whole(ends: tuple[socket.socket, Channel]) -> None:
    server, channel = ends
    assert list(channel.receive(0.0)) == []
    data = encode_message(Drain()) + encode_message(Abort(RequestId("a")))
    server.sendall(data[:15])
    assert list(channel.receive(0.0)) == []
    server.sendall(data[15:])
    assert list(channel.receive(0.0)) == [Drain(), Abort(RequestId("a"))]


def test_sent_messages_can_be_read(ends: tuple[socket.socket, Channel]) -> None:
    server, channel = ends
    channel.send(Progress("weights", 0.5))
    assert list(MessageReader(Progress).feed(server.recv(1000))) == [Progress("weights", 0.5)]


def test_closed_server_is_noticed_on_both_ways(ends: tuple[socket.socket, Channel]) -> None:
    server, channel = ends
    server.sendall(encode_message(Drain()))
    server.close()
    with pytest.raises(ServerGone):
        list(channel.receive(5.0))
    with pytest.raises(ServerGone):
        channel.send(Progress("weights", 0.5))
