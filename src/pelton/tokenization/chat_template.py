"""Renders chat templates in a process of their own, with limits on time and memory.

A template that loops, hoards memory or crashes costs its own process, which is killed and replaced; the caller gets a
RequestError. If a process is killed from outside, another one renders the same again. They start with the first render
(about 0.1 s) and are reused (under 1 ms for a chat); each renders one conversation at a time, and at most
`max_processes` run. No process of ours is forked: the child is a fresh Python that imports jinja2 alone
(`template_child`), with an empty environment.

Safe to use from many threads; `render_async` keeps an event loop free.
"""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import BoundedSemaphore
from time import monotonic
from typing import Any, final

from pelton.errors import InternalError, RequestError

RESERVED_VARIABLES = frozenset({"messages", "tools", "add_generation_prompt", "raise_exception", "strftime_now"})
"""Names that a caller's own variables may not take: they are the template's contract with us."""

_LENGTH = struct.Struct(">I")
_START_TIMEOUT_S = 30.0
_EXIT_TIMEOUT_S = 0.2  # from the end of its socket to the end of the process
_CONTINUE = "\ufdd2\ufdd3"


class _ChildLost(Exception):
    """The child process died or did not answer in time."""


@final
class _Child:
    """One process and the socket to it."""

    def __init__(self, max_bytes: int) -> None:
        ours, theirs = socket.socketpair()
        script = Path(__file__).with_name("template_child.py")
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", str(script), str(theirs.fileno()), str(max_bytes)],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={},
                process_group=0,  # a Ctrl-C in the terminal is for the server, which drains and still renders
            )
        self._socket = ours

    def ask(self, request: bytes, timeout_s: float) -> dict[str, Any]:
        """Send a request and wait for its answer. Raises _ChildLost after which the child must be closed."""
        deadline_s = monotonic() + timeout_s
        try:
            self._socket.settimeout(timeout_s)
            self._socket.sendall(_LENGTH.pack(len(request)) + request)
            (num_bytes,) = _LENGTH.unpack(self._receive(_LENGTH.size, deadline_s))
            answer: dict[str, Any] = json.loads(self._receive(num_bytes, deadline_s))
        except OSError as error:
            raise _ChildLost(str(error)) from error
        return answer

    @property
    def was_killed(self) -> bool:
        """Whether somebody else has killed the process, after `ask` found it gone."""
        try:
            return self._process.wait(_EXIT_TIMEOUT_S) == -signal.SIGKILL
        except subprocess.TimeoutExpired:
            return False

    def is_alive(self) -> bool:
        """False when the process has ended while it was idle, for example for want of memory."""
        return self._process.poll() is None

    def close(self) -> None:
        """End the process, whatever it is doing, and wait until it is gone."""
        self._socket.close()
        self._process.kill()
        self._process.wait()

    def _receive(self, num_bytes: int, deadline_s: float) -> bytes:
        received = bytearray()
        while len(received) < num_bytes:
            left_s = deadline_s - monotonic()
            if left_s <= 0:
                raise TimeoutError("no answer in time")
            self._socket.settimeout(left_s)
            part = self._socket.recv(min(num_bytes - len(received), 1 << 20))
            if not part:
                raise ConnectionResetError("the process ended")
            received += part
        return bytes(received)


@final
class TemplateWorker:
    """A few template processes, started as they are needed. Close it, or use it as a context manager."""

    def __init__(self, *, timeout_s: float = 5.0, max_bytes: int = 512 << 20, max_processes: int = 2) -> None:
        self._timeout_s = timeout_s
        self._max_bytes = max_bytes
        self._idle: list[_Child] = []
        self._slots = BoundedSemaphore(max_processes)
        self._is_closed = False

    def render(
        self,
        template: str | None,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        continue_final_message: bool = False,
        *,
        variables: Mapping[str, Any] | None = None,
    ) -> str:
        """The prompt text of a conversation. May block for the time limit.

        `continue_final_message` ends the text inside the last message, for the model to go on with it. `variables` are
        further names for the template (`bos_token`, `enable_thinking`). Raises RequestError with the template's own
        message and line where it refuses or fails, exceeds a limit, or where there is no template.
        """
        values = _check(template, messages, tools, add_generation_prompt, continue_final_message, variables or {})
        if continue_final_message:
            values["messages"] = _mark_end(messages)
        request = json.dumps({"template": template, "variables": values}).encode()
        answer = self._ask(request)
        if "error" in answer:
            where = f" (line {answer['line']})" if answer.get("line") else ""
            raise RequestError(f"chat template: {answer['error']}{where}", param="messages")
        text: str = answer["text"]
        return _cut_at_end(text) if continue_final_message else text

    async def render_async(
        self,
        template: str | None,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        continue_final_message: bool = False,
        *,
        variables: Mapping[str, Any] | None = None,
    ) -> str:
        """`render` on another thread."""
        return await asyncio.to_thread(
            self.render, template, messages, tools, add_generation_prompt, continue_final_message, variables=variables
        )

    def close(self) -> None:
        """End the processes. A render that is under way ends its own when it is done."""
        self._is_closed = True
        while self._idle:
            self._idle.pop().close()

    def __enter__(self) -> TemplateWorker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(self, request: bytes) -> dict[str, Any]:
        with self._slots:
            return self._ask_child(request, may_repeat=True)

    def _ask_child(self, request: bytes, *, may_repeat: bool) -> dict[str, Any]:
        child = self._take_child()
        try:
            answer = child.ask(request, self._timeout_s)
        except _ChildLost as error:
            was_killed = not isinstance(error.__cause__, TimeoutError) and child.was_killed
            child.close()
            if was_killed and may_repeat:
                return self._ask_child(request, may_repeat=False)
            raise RequestError(
                f"chat template: stopped, because it took more than {self._timeout_s:g} s or "
                f"{self._max_bytes >> 20} MiB ({error}).",
                param="messages",
            ) from error
        except BaseException:  # the answer may still come, and would be taken for the next one
            child.close()
            raise
        self._idle.append(child)
        if self._is_closed:
            self.close()
        return answer

    def _take_child(self) -> _Child:
        """An idle process, or a new one that has rendered a first text."""
        while self._idle:
            with suppress(IndexError):  # another thread may take the last one first
                child = self._idle.pop()
                if child.is_alive():
                    return child
                child.close()
        child = _Child(self._max_bytes)
        try:
            child.ask(_PROBE, _START_TIMEOUT_S)
        except _ChildLost as error:
            child.close()
            raise InternalError(f"the chat template process does not start: {error}") from error
        return child


_PROBE = json.dumps({"template": "ready", "variables": {}}).encode()


def _check(
    template: str | None,
    messages: Sequence[Mapping[str, Any]],
    tools: Sequence[Mapping[str, Any]] | None,
    add_generation_prompt: bool,
    continue_final_message: bool,
    variables: Mapping[str, Any],
) -> dict[str, Any]:
    if template is None:
        raise RequestError(
            "this model has no chat template. Use /v1/completions, or start the server with --chat-template FILE.",
            param="messages",
        )
    if add_generation_prompt and continue_final_message:
        raise RequestError(
            "add_generation_prompt and continue_final_message cannot both be true: one opens a new message, the other "
            "goes on with the last one.",
            param="continue_final_message",
        )
    taken = sorted(RESERVED_VARIABLES & variables.keys())
    if taken:
        raise RequestError(f"chat_template_kwargs: {taken[0]!r} is set by the server.", param="chat_template_kwargs")
    return {
        **variables,
        "messages": list(messages),
        "tools": None if tools is None else list(tools),
        "add_generation_prompt": add_generation_prompt,
    }


def _mark_end(messages: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The messages with a mark at the end of the last one, and a space for the template to strip if it strips."""
    content = messages[-1].get("content") if messages else None
    if isinstance(content, str):
        marked: Any = f"{content}{_CONTINUE} "
    elif isinstance(content, Sequence) and content and isinstance(content[-1], Mapping) and "text" in content[-1]:
        marked = [*content[:-1], {**content[-1], "text": f"{content[-1]['text']}{_CONTINUE} "}]
    else:
        raise RequestError("continue_final_message needs a last message with text.", param="continue_final_message")
    return [*messages[:-1], {**messages[-1], "content": marked}]


def _cut_at_end(text: str) -> str:
    before, mark, after = text.rpartition(_CONTINUE)
    if not mark:
        raise RequestError(
            "continue_final_message: the chat template leaves out the last message.", param="continue_final_message"
        )
    return before if after.startswith(" ") else before.rstrip()
