"""The supervisor without a client: what its listener hears, and when it has a problem."""

import asyncio
import sys
from pathlib import Path

import msgspec
import pytest
from tests.engine.fake_engine_main import Behaviour
from tests.engine.fakes import make_request

from pelton.core.messages import Add, EngineFacts, FromEngine, Outputs, Progress, Pulse, Ready, Working
from pelton.engine.started import start_process
from pelton.engine.supervisor import Listener, Patience, Supervisor

pytestmark = pytest.mark.cpu  # real processes

MAIN = Path(__file__).parent / "fake_engine_main.py"


class Notes(Listener):
    """Writes down what it hears."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.went_down = asyncio.Event()
        self.came_up = asyncio.Event()

    def on_message(self, message: FromEngine) -> None:
        """Write it down once."""
        name = type(message).__name__
        is_news = not isinstance(message, Pulse | Working) and (not isinstance(message, Outputs) or message.outputs)
        if name not in self.heard[-1:] and is_news:
            self.heard.append(name)

    def on_up(self, facts: EngineFacts) -> None:
        """Write it down."""
        self.heard.append(f"up with {facts.num_blocks} blocks")
        self.came_up.set()

    def on_given_up(self, reason: str) -> None:
        """Write it down."""
        self.heard.append("given up")

    def on_down(self, reason: str, *, is_external: bool) -> bool:
        """Write it down."""
        assert not is_external
        self.heard.append(reason)
        self.came_up.clear()
        self.went_down.set()
        return False


def test_listener_and_log_hear_of_the_end_and_of_the_next_engine(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")

    async def test() -> None:
        notes = Notes()
        config = msgspec.msgpack.encode(Behaviour(fault="exit"))
        supervisor = Supervisor([sys.executable, str(MAIN)], config, notes, Patience(first_backoff_s=0.01))
        assert supervisor.problem() == "The engine has not been started."
        await supervisor.start()
        assert supervisor.problem() is None
        supervisor.send(Add(make_request("a", [1, 2, 3], 50)))
        await notes.went_down.wait()
        down = "The engine process died (exit code 3): the engine process closed its socket."
        assert supervisor.problem() is not None
        assert supervisor.refusal() is None
        await notes.came_up.wait()
        assert supervisor.problem() is None
        await supervisor.close()
        await supervisor.close()
        started = [Progress.__name__, Ready.__name__, "up with 64 blocks"]
        assert notes.heard == [*started, Outputs.__name__, down, *started]
        told = [message for message in caplog.messages if "%" not in message]
        assert told[:2] == [down, "the engine was started again and takes requests"]
        assert supervisor.pid is None

    asyncio.run(asyncio.wait_for(test(), 30))


def test_close_while_waiting_for_the_next_try_leaves_no_process() -> None:
    async def test() -> None:
        notes = Notes()
        config = msgspec.msgpack.encode(Behaviour(fault="exit"))
        supervisor = Supervisor([sys.executable, str(MAIN)], config, notes, Patience(first_backoff_s=60.0))
        await supervisor.start()
        for _ in range(2):  # the first restart does not wait
            await notes.came_up.wait()
            notes.went_down.clear()
            supervisor.send(Add(make_request("a", [1, 2, 3, 4, 5], 50)))
            await notes.went_down.wait()
        await supervisor.close()
        assert supervisor.pid is None
        assert supervisor.num_restarts == 1

    asyncio.run(asyncio.wait_for(test(), 30))


@pytest.mark.parametrize("has_ended", [False, True])
def test_the_first_engine_is_the_one_that_was_started_if_it_still_runs(has_ended: bool) -> None:
    command = [sys.executable, str(MAIN)]
    first = start_process(command)
    if has_ended:
        first.process.kill()
        first.process.wait()

    async def test() -> None:
        config = msgspec.msgpack.encode(Behaviour())
        supervisor = Supervisor(command, config, Notes(), Patience(first_backoff_s=60.0), first)
        await supervisor.start()
        assert (supervisor.pid == first.process.pid) == (not has_ended)
        await supervisor.close()
        assert not first.is_running

    asyncio.run(asyncio.wait_for(test(), 30))
