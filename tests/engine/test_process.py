"""The engine process by itself: what it says, and that it never outlives the end of its socket."""

import contextlib
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from tests.engine.fake_engine_main import Behaviour
from tests.engine.fakes import compute_continuation, make_request

from pelton.core.messages import (
    HEADER,
    SCHEMA_VERSION,
    Add,
    Drain,
    Failed,
    FromEngine,
    Hello,
    MessageReader,
    Outputs,
    Progress,
    Pulse,
    Ready,
    Shutdown,
    ToEngine,
    Working,
    encode_message,
)

pytestmark = pytest.mark.cpu  # real processes

MAIN = Path(__file__).parent / "fake_engine_main.py"


class Engine:
    """The other side of an engine process, with blocking reads."""

    def __init__(self, sock: socket.socket, process: subprocess.Popen[bytes]) -> None:
        self.sock = sock
        self.process = process
        self._reader: MessageReader[FromEngine] = MessageReader(FromEngine)  # type: ignore[arg-type]
        self._messages: list[FromEngine] = []

    def send(self, message: ToEngine) -> None:
        self.sock.sendall(encode_message(message))

    def read(self) -> FromEngine | None:
        """The next message, None at the end."""
        while not self._messages:
            data = self.sock.recv(1 << 16)
            if not data:
                return None
            self._messages += [each for each in self._reader.feed(data) if not isinstance(each, Pulse | Working)]
        return self._messages.pop(0)

    def start(self, **behaviour: object) -> None:
        self.send(Hello("test", msgspec.msgpack.encode(Behaviour(**behaviour))))  # type: ignore[arg-type]
        assert self.read() == Progress("weights", 0.5)
        assert isinstance(self.read(), Ready)


@pytest.fixture
def engine() -> Iterator[Engine]:
    ours, theirs = socket.socketpair()
    ours.settimeout(20)
    with theirs:
        process = subprocess.Popen([sys.executable, str(MAIN), str(theirs.fileno())], pass_fds=(theirs.fileno(),))
    with ours, contextlib.ExitStack() as stack:
        stack.callback(process.wait)
        stack.callback(process.kill)
        yield Engine(ours, process)


def test_request_is_answered_and_idle_engines_send_heartbeats(engine: Engine) -> None:
    engine.start()
    request = make_request("a", 5, 4)
    engine.send(Add(request))
    tokens, heartbeats = [], 0
    while heartbeats < 2:
        message = engine.read()
        assert isinstance(message, Outputs)
        tokens += [token for output in message.outputs for token in output.token_ids]
        heartbeats = heartbeats + 1 if not message.outputs else 0
        assert message.stats.is_busy == (0 < len(tokens) < 4)
    assert tokens == compute_continuation(request.prompt_token_ids, 4)
    engine.send(Shutdown())
    assert engine.process.wait(10) == 0


def test_shutdown_ends_live_requests_first(engine: Engine) -> None:
    engine.start(step_s=0.01)
    engine.send(Add(make_request("a", 5, 200)))
    engine.send(Shutdown())
    reasons = []
    while (message := engine.read()) is not None:
        assert isinstance(message, Outputs)
        reasons += [output.finish_reason for output in message.outputs if output.finish_reason]
    assert reasons == ["abort"]
    assert engine.process.wait(10) == 0


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (encode_message(Drain()), "the first message is Drain, expected Hello"),
        (HEADER.pack(b"PL", SCHEMA_VERSION + 1, 0), "schema version"),
        (b"GET / HTTP/1.1\r\n", "a frame begins with b'GE'"),
    ],
)
def test_what_is_not_hello_is_refused(engine: Engine, data: bytes, reason: str) -> None:
    engine.sock.sendall(data)
    message = engine.read()
    assert isinstance(message, Failed)
    assert reason in message.reason
    assert message.error_class == "TransferError"
    assert engine.process.wait(10) == 69


def test_second_hello_is_refused_and_said(engine: Engine) -> None:
    engine.start()
    engine.send(Hello("again", b""))
    while not isinstance(message := engine.read(), Failed):
        assert message is not None
    assert "Hello is out of place" in message.reason
    assert engine.process.wait(10) == 69


@pytest.mark.parametrize("when", ["idle", "busy", "in a step that never ends", "loading"])
def test_engine_ends_with_its_server(engine: Engine, when: str) -> None:
    if when == "loading":
        engine.send(Hello("test", msgspec.msgpack.encode(Behaviour(fault_at_start="hang"))))
        assert engine.read() == Progress("weights", 0.5)
    else:
        engine.start(fault="stall" if when == "in a step that never ends" else "none", step_s=0.005)
    if when in ("busy", "in a step that never ends"):
        engine.send(Add(make_request("a", [1, 2, 3], 200)))
        while not (isinstance(message := engine.read(), Outputs) and message.outputs):
            assert message is not None
    engine.sock.close()
    assert engine.process.wait(10) == 0
