"""An engine process without a model, for tests: `python fake_engine_main.py FD`. Hello's config says how it behaves."""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any

import msgspec

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.engine.fakes import HashExecutor, compute_next_token, make_engine

from pelton.core.messages import HEADER, EngineFacts
from pelton.core.step import RequestId
from pelton.engine.channel import Channel
from pelton.engine.loop import EngineLoop
from pelton.engine.process import Report, run_engine
from pelton.engine.scheduler import Scheduler
from pelton.errors import CheckpointError
from pelton.kvcache.block_pool import BlockPool


class Behaviour(msgspec.Struct):
    """What goes wrong, and when. The prompt's first token chooses: 1 misbehaves, others do not."""

    fault: str = "none"
    step_s: float = 0.0
    fault_at_start: str = "none"
    seam: str = "none"  # what fails at its call number `at`: a name of SEAMS
    at: int = 0
    once_path: str = ""  # a file that is made then; while it is there nothing fails any more


SEAMS: dict[str, tuple[type, str]] = {
    "allocate": (BlockPool, "acquire"),
    "schedule": (Scheduler, "schedule"),
    "execute": (HashExecutor, "execute"),
    "update": (Scheduler, "update"),
    "send": (Channel, "send"),
    "receive": (Channel, "receive"),
    "sample": (HashExecutor, "choose"),
    "count": (EngineLoop, "stats"),
}


class InjectedFault(Exception):
    """What fails."""


def inject(behaviour: Behaviour) -> None:
    """Let the asked call of the asked seam fail."""
    if behaviour.seam == "none":
        return
    owner, name = SEAMS[behaviour.seam]
    method = getattr(owner, name)
    num_calls = 0

    def call(*args: Any, **more: Any) -> Any:
        nonlocal num_calls
        num_calls += 1
        if num_calls >= behaviour.at and not Path(behaviour.once_path).exists():
            Path(behaviour.once_path).touch()
            raise InjectedFault(f"{behaviour.seam} fails")
        return method(*args, **more)

    setattr(owner, name, call)


class FaultyExecutor(HashExecutor):
    """Does what it was told as soon as it sees a request whose first token is 1."""

    def __init__(self, behaviour: Behaviour, sock: socket.socket) -> None:
        super().__init__(64, 4)
        self.behaviour = behaviour
        self.sock = sock

    def choose(self, request_id: RequestId, token_ids: list[int]) -> int:
        """The hash, or the fault."""
        super().choose(request_id, token_ids)
        time.sleep(self.behaviour.step_s)
        if token_ids[0] == 1 and len(token_ids) > 4:
            match self.behaviour.fault:
                case "raise":
                    raise ValueError("a kernel failed")
                case "exit":
                    os._exit(3)
                case "segfault":
                    os.kill(os.getpid(), signal.SIGSEGV)
                case "stall":
                    time.sleep(60)
                case "nan":
                    return -1
                case "garbage":
                    self.sock.sendall(b"not a frame at all")
                case "version":
                    self.sock.sendall(HEADER.pack(b"PL", 99, 0))
        return compute_next_token(token_ids)


def main() -> int:
    """Run the engine on the given socket."""
    sock = socket.socket(fileno=int(sys.argv[1]))

    def make(config: bytes, report: Report) -> tuple[EngineLoop, EngineFacts]:
        behaviour = msgspec.msgpack.decode(config, type=Behaviour)
        report("weights", 0.5)
        inject(behaviour)
        match behaviour.fault_at_start:
            case "checkpoint":
                raise CheckpointError("model.gguf: it is truncated.")
            case "exit":
                os._exit(7)
            case "hang":
                time.sleep(60)
        engine = make_engine(64, 4, FaultyExecutor(behaviour, sock), max_num_requests=32)
        return engine, engine.make_facts({"model": "hash"})

    return run_engine(sock, make, heartbeat_s=0.05)


if __name__ == "__main__":
    sys.exit(main())
