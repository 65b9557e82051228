"""`pelton run MODEL`: prompts from a file, answers to a file, no server.

Every line is answered by the server's own handlers, called in memory, so fields, checks and answers are those of the
API. Answers are written in the order of the prompts; a line that fails gets an error in its place and stops nothing.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import click
import msgspec

from pelton.api.assemble import open_model, start_in_child
from pelton.api.progress import ProgressBar
from pelton.api.text_engine import TextEngine
from pelton.cli.options import config_options, get_model
from pelton.cli.prompt_file import Line, make_result, read_lines
from pelton.cli.sampling_option import MAX_TOKENS, TEMPERATURE
from pelton.config.user_config import UserConfig
from pelton.errors import ConfigError
from pelton.observability.log import setup_logging
from pelton.server.admission import Admission
from pelton.server.app import make_local_app
from pelton.server.memory_call import call
from pelton.server.state import ServerState

NUM_IN_FLIGHT = 256  # lines that are answered at the same time: more than steps can hold, less than memory minds
NO_LIMIT = 2**31
SERVICE_UNAVAILABLE = 503
WAITS_S = (1.0, 4.0, 16.0, 0.0)  # after each try that found no engine
FILE = click.Path(path_type=Path)


@click.command()
@config_options("model", "cache", "scheduler", "runner", "log")
@click.option("-i", "--input", "input_path", required=True, type=FILE, help="A .txt or .jsonl file.")
@click.option("-o", "--output", "output_path", required=True, type=FILE, help="A .jsonl file.")
@click.option("--chat", "as_chat", is_flag=True, help="Take plain prompts as messages of a user.")
@click.option("--max-tokens", type=MAX_TOKENS, default=None, help="Longest answer, where a line does not say.")
@click.option("--temperature", type=TEMPERATURE, default=None, help="0 takes the most likely token.")
@click.option("--resume", is_flag=True, help="Keep the answers that are in the output, and go on after them.")
@click.option("--overwrite", is_flag=True, help="Replace the output if there is one.")
def run(asked: UserConfig, input_path: Path, output_path: Path, **more: Any) -> int:
    """Run the prompts of a file through MODEL.

    A .txt file has one prompt in each line. A line of a .jsonl file is a text, an object with "prompt" or "messages"
    and any other field of the API, or a line of OpenAI's batch format. Exit code 1 if any line failed.
    """
    get_model(asked)
    setup_logging(asked.get("log_level"), asked.get("log_format"))
    fields = {name: more[name] for name in ("max_tokens", "temperature") if more[name] is not None}
    lines = read_lines(input_path, fields, as_chat=more["as_chat"])
    with open_output(output_path, resume=more["resume"], overwrite=more["overwrite"]) as (output, num_done):
        num_failed = asyncio.run(run_model(asked, lines, output, num_done)) if num_done < len(lines) else 0
    click.echo(f"{len(lines)} lines, {num_failed} failed: {output_path}", err=True)
    return 1 if num_failed else 0


@contextmanager
def open_output(path: Path, *, resume: bool, overwrite: bool) -> Iterator[tuple[BinaryIO, int]]:
    """The output file to append to, and how many whole lines it has. Raises ConfigError rather than lose answers."""
    is_there = path.exists()
    if is_there and path.stat().st_size and not (resume or overwrite):
        raise ConfigError(f"--output: {path} is there already. Give --resume to go on, or --overwrite.")
    try:
        file = path.open("r+b" if resume and is_there else "wb")
    except OSError as error:
        raise ConfigError(f"--output: {path} cannot be written: {error.strerror}.") from error
    with file:
        num_done = end = 0
        for line in file if resume and is_there else ():
            if line.endswith(b"\n"):  # the last line may have been cut off
                num_done += 1
                end += len(line)
        file.seek(end)
        file.truncate()
        yield file, num_done


async def run_model(asked: UserConfig, lines: list[Line], output: BinaryIO, num_done: int) -> int:
    """Load the model and answer `lines` from number `num_done` on. Returns how many failed."""
    parts = await start_in_child(await asyncio.to_thread(open_model, asked))
    engine = TextEngine(parts)
    try:
        state = ServerState.make(engine)
        state.admission = Admission(NO_LIMIT)
        with ProgressBar("Lines", len(lines) - num_done) as bar:
            return await answer_lines(state, lines[num_done:], output, bar)
    finally:
        await parts.client.close()
        engine.close()
        parts.close()


async def answer_lines(
    state: ServerState,
    lines: Iterable[Line],
    output: BinaryIO,
    bar: ProgressBar,
    waits_s: Sequence[float] = WAITS_S,
) -> int:
    """Write one result for each line, in order, each as soon as it and all before it are there."""
    app = make_local_app(state)
    waiting: deque[asyncio.Task[dict[str, Any]]] = deque()
    num_failed = 0

    async def answer(line: Line) -> dict[str, Any]:
        if line.error is not None:
            return make_result(line, 400, {"error": {"message": line.error, "type": "invalid_request_error"}})
        payload = msgspec.json.encode(line.body)
        for wait_s in waits_s:
            status, body = await call(app, "POST", line.path, payload)
            if status != SERVICE_UNAVAILABLE:
                break
            await asyncio.sleep(wait_s)  # the engine died and is started again
        return make_result(line, status, msgspec.json.decode(body))

    rest: Iterator[Line] = iter(lines)
    try:
        while True:
            for line in itertools.islice(rest, NUM_IN_FLIGHT - len(waiting)):
                waiting.append(asyncio.create_task(answer(line)))
            if not waiting:
                return num_failed
            result = await waiting[0]
            waiting.popleft()
            num_failed += result.get("error") is not None
            output.write(msgspec.json.encode(result) + b"\n")
            output.flush()
            bar.advance(get_num_tokens(result))
    finally:
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


def get_num_tokens(result: dict[str, Any]) -> int:
    """Output tokens of a result, in either form."""
    response = result.get("response") or {}
    usage = result.get("usage") or response.get("body", {}).get("usage") or {}
    return int(usage.get("completion_tokens", 0))
