"""One streamed request over HTTP/1.1 as a load generator sees it: when pieces of text came, and how many.

Nothing is decoded while the answer runs: an event ends with an empty line, JSON has none, and what frames the chunks of
the body holds none either. What the last event says (usage) is read at the end. A read costs some microseconds, so that
a generator takes little of the cores that it measures. One thread; the owner waits on the socket.
"""

from __future__ import annotations

import json
import re
import socket
from dataclasses import dataclass, field
from typing import Final, final

READ_BYTES: Final = 1 << 16
OK: Final = 200
TEXT: Final = re.compile(rb'"(?:content|text)": ?"[^"]')  # not the empty content beside the role
END_OF_BODY: Final = b"0\r\n\r\n"
LENGTH: Final = re.compile(rb"(?i)\r\ncontent-length: *(\d+)")
PROMPT_TOKENS: Final = re.compile(rb'"prompt_tokens": ?(\d+)')
OUTPUT_TOKENS: Final = re.compile(rb'"completion_tokens": ?(\d+)')


@dataclass(slots=True)
class Answer:
    """What is known of one answer. Times are those of the owner's clock."""

    start_s: float
    times_s: list[float] = field(default_factory=list)  # of the reads that brought text
    counts: list[int] = field(default_factory=list)  # events with text in each of those reads
    num_prompt_tokens: int = 0
    num_output_tokens: int = 0
    error: str | None = None

    @property
    def ttft_s(self) -> float:
        """From sending the request to the first text."""
        return self.times_s[0] - self.start_s

    @property
    def e2e_s(self) -> float:
        """From sending the request to the last text."""
        return self.times_s[-1] - self.start_s


@final
class StreamClient:
    """A connection that is used for one streamed request after another."""

    def __init__(self, host: str, port: int, timeout_s: float) -> None:
        self.socket = socket.create_connection((host, port), timeout_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._timeout_s = timeout_s
        self._begin(0.0)

    def send(self, request: bytes, now_s: float) -> None:
        """Begin a request; the one before has ended. Blocks until the socket takes it."""
        self._begin(now_s)
        self.socket.settimeout(self._timeout_s)
        self.socket.sendall(request)
        self.socket.setblocking(False)

    def receive(self, now_s: float) -> Answer | None:
        """Take what has come; the answer, once it is whole or has failed."""
        try:
            data = self.socket.recv(READ_BYTES)
        except BlockingIOError:
            return None
        except ConnectionError as error:
            return self.fail(f"the connection failed: {error}")
        if not data:
            return self.fail("the connection was closed before the end of the answer")
        self._rest += data
        if self._status is None and not self._read_head():
            return None
        if self._status != OK:
            return self.fail(self._describe_error()) if len(self._rest) >= self._length else None
        self._read_events(now_s)
        return self._finish() if self._rest.endswith(END_OF_BODY) else None

    def fail(self, error: str) -> Answer:
        """Give the answer up."""
        self._answer.error = error
        return self._answer

    def close(self) -> None:
        """Give the socket back."""
        self.socket.close()

    def _begin(self, now_s: float) -> None:
        self._answer = Answer(now_s)
        self._status: int | None = None
        self._length = 0  # of the body of an answer that is no stream
        self._rest = b""  # the beginning of what is not whole
        self._last = b""  # the last whole events

    def _read_head(self) -> bool:
        head, found, rest = self._rest.partition(b"\r\n\r\n")
        if found:
            self._status = int(head.split(b" ", 2)[1])
            length = LENGTH.search(head)
            self._length = int(length[1]) if length else 0
            self._rest = rest
        return bool(found)

    def _read_events(self, now_s: float) -> None:
        end = self._rest.rfind(b"\n\n") + 2
        if end == 1:
            return
        events, self._rest = self._rest[:end], self._rest[end:]
        count = len(TEXT.findall(events))
        if count:
            self._answer.times_s.append(now_s)
            self._answer.counts.append(count)
        self._last = events if len(events) > 1024 else (self._last + events)[-2048:]

    def _finish(self) -> Answer:
        prompt, output = PROMPT_TOKENS.findall(self._last), OUTPUT_TOKENS.findall(self._last)
        if b'"error"' in self._last and not output:
            return self.fail(f"the stream ended with {self._last[-300:].decode('utf-8', 'replace').strip()}")
        if not prompt or not output:
            return self.fail("the stream had no usage, though stream_options asked for it")
        if not self._answer.times_s:
            return self.fail("the stream had no text")
        self._answer.num_prompt_tokens = int(prompt[-1])
        self._answer.num_output_tokens = int(output[-1])
        return self._answer

    def _describe_error(self) -> str:
        try:
            said = json.loads(self._rest)["error"]["message"]
        except (ValueError, KeyError, TypeError):
            said = self._rest[:200].decode("utf-8", "replace")
        return f"status {self._status}: {said}"
