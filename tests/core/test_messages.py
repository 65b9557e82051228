"""Frames: every message comes back, in whatever pieces it travels, and nothing else is taken for one."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pelton.core.messages import (
    HEADER,
    MARK,
    MAX_BODY_BYTES,
    SCHEMA_VERSION,
    Abort,
    Add,
    Drain,
    EngineFacts,
    Failed,
    FromEngine,
    Hello,
    MessageReader,
    Outputs,
    Progress,
    Ready,
    Shutdown,
    ToEngine,
    encode_message,
)
from pelton.core.outputs import EngineStats, RequestOutput, Timings
from pelton.core.sampling_params import SamplingParams
from pelton.core.step import NewRequest, RequestId, TokenLogprobs
from pelton.errors import TransferError

pytestmark = pytest.mark.unit

REQUEST = NewRequest(
    request_id=RequestId("r"),
    prompt_token_ids=(1, 2, 3),
    sampling=SamplingParams(seed=2**64 - 1, logit_bias={5: -100.0}, stop=("\n",), stop_token_ids=(7,)),
    eos_token_ids=(9,),
    output_token_ids=(4,),
)
OUTPUT = RequestOutput(
    request_id=RequestId("r"),
    token_ids=(4,),
    logprobs=(TokenLogprobs(-0.5, (4, 5), (-0.5, -1.5)),),
    finish_reason="stop",
    stop_token_id=4,
    timings=Timings(arrival_s=1.5),
)
FACTS = EngineFacts(
    max_model_len=8, max_num_requests=2, max_num_batched_tokens=4, max_prefill_chunk=4, vocab_size=9,
    block_size=4, num_blocks=5,
)  # fmt: skip
TO_ENGINE = [Hello("1", b"\x00config"), Add(REQUEST), Abort(RequestId("r")), Drain(), Shutdown()]
FROM_ENGINE = [Progress("weights", 0.5), Ready(FACTS), Outputs((OUTPUT,), EngineStats(num_steps=3)), Failed("x", "y")]


@given(sizes=st.lists(st.integers(1, 40), min_size=1))
def test_messages_come_back_from_any_pieces(sizes: list[int]) -> None:
    for messages, message_type in ((TO_ENGINE, ToEngine), (FROM_ENGINE, FromEngine)):
        data = b"".join(encode_message(message) for message in messages)
        reader = MessageReader(message_type)
        got = []
        start = 0
        for size in sizes:
            got += reader.feed(data[start : start + size])
            start += size
        got += reader.feed(data[start:])
        assert got == messages


def frame(body: bytes, *, mark: bytes = MARK, version: int = SCHEMA_VERSION, num_bytes: int | None = None) -> bytes:
    return HEADER.pack(mark, version, len(body) if num_bytes is None else num_bytes) + body


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (frame(b"", mark=b"XX"), "begins with b'XX'"),
        (frame(b"", version=99), "schema version 99, this process"),
        (frame(b"", num_bytes=MAX_BODY_BYTES + 1), "expected at most"),
        (frame(b"\xc1"), "is not a message"),
        (frame(msgspec.msgpack.encode({"type": "Reboot"})), "is not a message"),
        (frame(msgspec.msgpack.encode({"type": "Abort", "request_id": 3})), "is not a message"),
        (
            frame(
                msgspec.msgpack.encode(
                    {"type": "Add", "request": {"request_id": "a", "prompt_token_ids": [], "sampling": {"n": 0}}}
                )
            ),
            "n: 0 is out of range",
        ),
    ],
)
def test_what_is_not_a_message_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(TransferError, match=message):
        list(MessageReader(ToEngine).feed(data))


def test_messages_before_a_bad_frame_are_given() -> None:
    reader = MessageReader(ToEngine)
    messages = reader.feed(encode_message(Drain()) + b"garbage!")
    assert next(messages) == Drain()
    with pytest.raises(TransferError):
        next(messages)


def test_message_too_large_to_send_is_refused() -> None:
    with pytest.raises(TransferError, match="expected at most"):
        encode_message(Hello("1", bytes(MAX_BODY_BYTES)))
