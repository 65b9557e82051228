"""What the server and the engine process say to each other, and how it is put into bytes.

A frame is a header (mark, schema version, length of the body) and a msgpack body, a struct with its type as tag. The
version is in every frame and the length is checked before anything is allocated, so a peer of another version, or
garbage, is a TransferError and never a misread message. No pickle: a message can only be one of the types below.

    to the engine     Hello, then Add, Abort, Drain, Shutdown, PinPrefix, ListPrefixes, ReleasePrefix
    from the engine   Progress, then Ready, then Working, Outputs (also as heartbeat), Pulse; Failed at any time, last
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Generic, TypeVar, final

import msgspec

from pelton.core.outputs import EngineStats, PrefixInfo, RequestOutput
from pelton.core.step import NewRequest, RequestId
from pelton.errors import EngineError, TransferError

SCHEMA_VERSION = 2  # add one when a field of any message changes its meaning or goes
MAX_BODY_BYTES = 64 << 20
HEADER = struct.Struct("<2sHI")
MARK = b"PL"


class Hello(msgspec.Struct, frozen=True, tag=True):
    """The first message to the engine: who asks, and the configuration as msgpack that the assembler understands."""

    server_version: str
    config: bytes


class Add(msgspec.Struct, frozen=True, tag=True):
    """Run a request."""

    request: NewRequest


class Abort(msgspec.Struct, frozen=True, tag=True):
    """End a request, if it still lives."""

    request_id: RequestId


class Drain(msgspec.Struct, frozen=True, tag=True):
    """Refuse requests from here on; run the live ones to their end."""


class PinPrefix(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """Keep a prefix in the cache under a name. `number` comes back in the PrefixAnswer, as in the next two."""

    number: int
    name: str
    tenant: str
    cache_salt: str
    token_ids: tuple[int, ...]
    ttl_s: float | None  # None: until it is released


class ListPrefixes(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """Say which names a tenant has."""

    number: int
    tenant: str


class ReleasePrefix(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """Let a name of a tenant go."""

    number: int
    name: str
    tenant: str


class Shutdown(msgspec.Struct, frozen=True, tag=True):
    """End: abort what lives, say so, and exit."""


class Progress(msgspec.Struct, frozen=True, tag=True):
    """What the engine does before it is ready. `fraction` is 0 to 1."""

    stage: str
    fraction: float


class EngineFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What an engine knows of itself once it is loaded; the limits are those that requests are checked against."""

    max_model_len: int
    max_num_requests: int
    max_num_batched_tokens: int
    max_prefill_chunk: int
    vocab_size: int
    block_size: int
    num_blocks: int
    details: dict[str, str] = {}  # for people: model, backend, threads


class Ready(msgspec.Struct, frozen=True, tag=True):
    """The engine takes requests."""

    facts: EngineFacts


class Outputs(msgspec.Struct, frozen=True, tag=True):
    """What a step gave, and the figures after it. With no outputs it is a heartbeat."""

    outputs: tuple[RequestOutput, ...]
    stats: EngineStats


class PrefixAnswer(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """The prefixes that were pinned, listed or released; or why not, with the name of a class of `pelton.errors`."""

    number: int
    prefixes: tuple[PrefixInfo, ...] = ()
    error: str = ""
    error_class: str = ""
    param: str | None = None  # of a RequestError


class Working(msgspec.Struct, frozen=True, tag=True):
    """The next step, and all up to the next Working, computes tokens of these requests and of no others."""

    request_ids: tuple[RequestId, ...]


class Pulse(msgspec.Struct, frozen=True, tag=True):
    """Sent every fraction of a second, also during a step. `problem` says why the step will never end."""

    step_age_s: float  # 0: between steps
    problem: str = ""


class Failed(msgspec.Struct, frozen=True, tag=True):
    """The engine cannot go on and exits. `error_class` is the name of a class of `pelton.errors`."""

    reason: str
    error_class: str


PrefixQuestion = PinPrefix | ListPrefixes | ReleasePrefix
ToEngine = Hello | Add | Abort | Drain | Shutdown | PrefixQuestion
FromEngine = Progress | Ready | Outputs | Working | Pulse | PrefixAnswer | Failed
MessageT = TypeVar("MessageT", ToEngine, FromEngine)

_encoder = msgspec.msgpack.Encoder()


def encode_message(message: ToEngine | FromEngine) -> bytes:
    """One frame. Raises TransferError if it would be larger than a peer accepts."""
    body = _encoder.encode(message)
    check_length(len(body))
    return HEADER.pack(MARK, SCHEMA_VERSION, len(body)) + body


def check_length(num_bytes: int) -> None:
    """Raise TransferError if no frame may have a body of `num_bytes`."""
    if num_bytes > MAX_BODY_BYTES:
        raise TransferError(f"engine socket: a message of {num_bytes} bytes, expected at most {MAX_BODY_BYTES}.")


@final
class MessageReader(Generic[MessageT]):
    """Puts messages together from bytes that arrive in any pieces."""

    def __init__(self, message_type: type[MessageT]) -> None:
        self._decoder: msgspec.msgpack.Decoder[MessageT] = msgspec.msgpack.Decoder(message_type)
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[MessageT]:
        """Yield the messages that `data` completes. Raises TransferError on anything that is not a message."""
        self._buffer += data
        start = 0
        try:
            while len(self._buffer) - start >= HEADER.size:
                mark, version, num_bytes = HEADER.unpack_from(self._buffer, start)
                check_header(mark, version, num_bytes)
                end = start + HEADER.size + num_bytes
                if len(self._buffer) < end:
                    break
                body = bytes(memoryview(self._buffer)[start + HEADER.size : end])
                start = end
                yield self._decode(body)
        finally:
            del self._buffer[:start]

    def _decode(self, body: bytes) -> MessageT:
        try:
            return self._decoder.decode(body)
        except (msgspec.MsgspecError, EngineError) as error:  # EngineError: a value that a struct's own check refuses
            raise TransferError(f"engine socket: a frame of {len(body)} bytes is not a message: {error}.") from error


def check_header(mark: bytes, version: int, num_bytes: int) -> None:
    """Raise TransferError unless a frame with this header can be read."""
    if mark != MARK:
        raise TransferError(f"engine socket: a frame begins with {mark!r}, expected {MARK!r}.")
    if version != SCHEMA_VERSION:
        raise TransferError(
            f"engine socket: the peer speaks schema version {version}, this process {SCHEMA_VERSION}. "
            "Server and engine must be of one installation: restart the server."
        )
    check_length(num_bytes)
