"""The engine process over the socket it inherits."""

from __future__ import annotations

import socket
import subprocess
from pathlib import Path

import msgspec
import pytest
from tests.engine.fakes import make_request
from tests.fakes import TinyModel

from pelton.api.assemble import open_model
from pelton.api.engine_command import ENGINE_COMMAND
from pelton.api.engine_main import main
from pelton.config.user_config import ask
from pelton.core.messages import (
    Add,
    Failed,
    FromEngine,
    Hello,
    MessageReader,
    Outputs,
    Progress,
    Ready,
    Shutdown,
    encode_message,
)
from pelton.errors import CheckpointError, ConfigError

pytestmark = pytest.mark.cpu


@pytest.mark.parametrize("arguments", [[], ["x"], ["-1"], ["3", "4"]])
def test_without_a_socket_it_says_how_to_serve(arguments: list[str]) -> None:
    with pytest.raises(ConfigError, match=r"started without the number of its socket\. Use `pelton serve`\."):
        main(arguments)


def talk(config: bytes) -> tuple[list[object], int]:
    """Start the process, ask it for one request, and hear it to its end: its messages and its exit code."""
    ours, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen([*ENGINE_COMMAND, str(theirs.fileno())], pass_fds=[theirs.fileno()])
    reader: MessageReader[FromEngine] = MessageReader(FromEngine)  # type: ignore[arg-type]
    heard: list[object] = []
    with ours:
        ours.settimeout(60)
        ours.sendall(encode_message(Hello("test", config)))
        while data := ours.recv(1 << 16):
            for message in reader.feed(data):
                heard.append(message)
                if isinstance(message, Ready):
                    ours.sendall(encode_message(Add(make_request("r", [1, 2, 3], 4))))
                if isinstance(message, Outputs) and any(output.finish_reason for output in message.outputs):
                    ours.sendall(encode_message(Shutdown()))
    return heard, process.wait(30)


def test_it_loads_answers_and_ends(tmp_path: Path) -> None:
    folder = str(TinyModel().write(tmp_path))
    opened = open_model(ask(model=folder, num_threads=1, max_num_requests=1, kv_cache_memory_bytes=2**20))
    opened.checkpoint.close()
    heard, exit_code = talk(msgspec.msgpack.encode(opened.setup))
    assert exit_code == 0
    kinds = [type(message) for message in heard]
    assert set(kinds[: kinds.index(Ready)]) == {Progress}
    outputs = [output for message in heard if isinstance(message, Outputs) for output in message.outputs]
    assert sum(len(output.token_ids) for output in outputs) == 4
    assert outputs[-1].finish_reason == "length"


def test_a_model_that_has_gone_is_told_and_is_the_exit_code(tmp_path: Path) -> None:
    folder = TinyModel().write(tmp_path / "tiny")
    opened = open_model(ask(model=str(folder), num_threads=1, max_num_requests=1))
    opened.checkpoint.close()
    (folder / "config.json").unlink()
    heard, exit_code = talk(msgspec.msgpack.encode(opened.setup))
    failed = heard[-1]
    assert isinstance(failed, Failed)
    assert failed.error_class == "CheckpointError"
    assert "config.json" in failed.reason
    assert exit_code == CheckpointError.exit_code
