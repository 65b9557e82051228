"""Hostile GGUF files: whatever the bytes, only a CheckpointError comes out, at once and in little memory."""

from __future__ import annotations

import struct
import time
import tracemalloc
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.model_files import (
    ARRAY,
    STRING,
    UINT32,
    UINT64,
    GgufTensor,
    array,
    counted,
    f32,
    f32s,
    flag,
    flags,
    gguf_bytes,
    gguf_matrix,
    i32s,
    llama_gguf,
    strings,
    text,
    u32,
)

from pelton.checkpoint.dequantize import dequantize
from pelton.checkpoint.gguf.checkpoint import GgufCheckpoint
from pelton.checkpoint.gguf.container import read_container
from pelton.checkpoint.rope import rotary_frequencies
from pelton.errors import CheckpointError
from pelton.tokenization import make_tokenizer

pytestmark = pytest.mark.cpu  # thousands of files

MAX_TRACED_BYTES = 4 << 20
MAX_REFUSAL_BYTES = 50 << 20
MAX_REFUSAL_S = 1.0
HUGE = 1 << 63


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model.gguf"


def sound() -> bytes:
    """A small file with all kinds of values that opens."""
    return llama_gguf(tensors=[gguf_matrix("blk.0.attn_q.weight", 4, 16)], general__name=text("x"))


def refuse(path: Path, raw: bytes, message: str) -> None:
    path.write_bytes(raw)
    tracemalloc.start()
    begin = time.perf_counter()
    try:
        with pytest.raises(CheckpointError, match=message):
            read_container(path)
        assert time.perf_counter() - begin < MAX_REFUSAL_S
        assert tracemalloc.get_traced_memory()[1] < MAX_TRACED_BYTES
    finally:
        tracemalloc.stop()


def tensor(name: bytes = b"t", dims: tuple[int, ...] = (8,), **changes: Any) -> GgufTensor:
    return GgufTensor(name=name, dims=dims, **{"payload": bytes(32), **changes})


HEADERS: dict[str, tuple[bytes, str]] = {
    "magic": (gguf_bytes([], magic=b"GGUX"), "not a GGUF file"),
    "version 1": (gguf_bytes([], version=1), "is GGUF version 1"),
    "version 4": (gguf_bytes([], version=4), "is GGUF version 4"),
    "version 0": (gguf_bytes([], version=0), "is GGUF version 0"),
    "big endian": (gguf_bytes([], version=3 << 24), "big-endian"),
    "big endian by its magic": (gguf_bytes([], magic=b"FUGG"), "big-endian"),
    "tensors -1": (gguf_bytes([], num_tensors=(1 << 64) - 1), "claims 18446744073709551615 tensors"),
    "tensors 2^62": (gguf_bytes([], num_tensors=1 << 62), "claims"),
    "values 2^40": (gguf_bytes([("a", u32(1))], num_values=1 << 40), "more than"),
    "one tensor too many": (gguf_bytes([], [tensor()], num_tensors=2), "printable and not empty"),
    "one value too many": (gguf_bytes([("a", u32(1))], [tensor()], num_values=2), "."),
    "empty": (b"", "is empty"),
    "magic alone": (b"GGUF", "truncated"),
}
KEYS: dict[str, tuple[bytes, str]] = {
    "length 2^64 - 1": (b"\xff" * 8 + b"a" * 64, "a metadata key claims"),
    "length beyond the file": (struct.pack("<Q", 5000) + b"a" * 64, "truncated"),
    "empty": (counted(b"") + u32(1), "printable ASCII"),
    "NUL": (counted(b"a\x00b") + u32(1), "printable ASCII"),
    "not ASCII": (counted(b"caf\xc3\xa9") + u32(1), "printable ASCII"),
    "escape sequence": (counted(b"\x1b[2J") + u32(1), "printable ASCII"),
    "twice": (counted(b"a") + u32(1) + counted(b"a") + u32(1), "stands in the file twice"),
}
VALUES: dict[str, tuple[bytes, str]] = {
    "type 13": (struct.pack("<II", 13, 0), "has type 13"),
    "type 2^32 - 1": (struct.pack("<II", (1 << 32) - 1, 0), "has type 4294967295"),
    "bool 2": (flag(2), "boolean of 2"),
    "array of bool 2": (flags([0, 2]), "neither 0 nor 1"),
    "array of arrays": (array(ARRAY, 1, array(UINT32, 1, bytes(4))), "array of arrays"),
    "array type 13": (array(13, 1, bytes(8)), "has type 13"),
    "array 2^61": (array(UINT64, 1 << 61, bytes(8)), "claims 2305843009213693952 elements"),
    "array beyond the file": (array(UINT64, 1 << 20, bytes(8)), "truncated"),
    "strings 2^63": (array(STRING, HUGE, bytes(8)), "claims 9223372036854775808 elements"),
    "strings beyond the file": (array(STRING, 1 << 20, bytes(64)), "more than the"),
    "string 2^63": (struct.pack("<IQ", STRING, HUGE) + b"abc", "more than the 1073741824 allowed"),
    "string beyond the file": (struct.pack("<IQ", STRING, 1 << 29) + b"abc", "truncated"),
    "string in an array beyond the file": (strings(["a"])[:-9] + struct.pack("<Q", 1 << 40) + bytes(64), "claims"),
    "string of other encoding": (text(b"\xff\xfe"), "not valid UTF-8"),
}
ALIGNMENTS = [u32(0), u32(3), u32(4), u32(48), u32(1 << 13), u32(1 << 31), text("32"), flag(1)]
TENSORS: dict[str, tuple[list[GgufTensor], str]] = {
    "no axes": ([tensor(dims=())], "has 0 axes"),
    "five axes": ([tensor(dims=(8, 1, 1, 1, 1))], "has 5 axes"),
    "2^32 - 1 axes": ([tensor(num_dims=(1 << 32) - 1)], "has 4294967295 axes"),
    "axis 0": ([tensor(dims=(0, 8))], "must be at least 1"),
    "axis -1": ([tensor(dims=(-1, 8))], "must be at least 1"),
    "axis 2^63 - 1": ([tensor(dims=((1 << 63) - 1,))], "truncated"),
    "product wraps to 0": ([tensor(dims=(1 << 32, 1 << 32))], "truncated"),
    "product wraps to a small one": ([tensor(dims=((1 << 42) + 1, 1 << 22))], "truncated"),
    "bytes wrap": ([tensor(dims=(1 << 62,))], "truncated"),
    "type 4": ([tensor(type_id=4)], "has type 4"),
    "type 36": ([tensor(type_id=36)], "has type 36"),
    "type 43": ([tensor(type_id=43)], "has type 43"),
    "type 2^31": ([tensor(type_id=1 << 31)], "has type 2147483648"),
    "partial block": ([tensor(dims=(33,), type_id=8)], "needs a multiple of 32"),
    "unaligned": ([tensor(offset=1)], "is at offset 1"),
    "a hole": ([tensor(offset=32)], "expected 0"),
    "offset 2^64 - 32": ([tensor(offset=(1 << 64) - 32)], "expected 0"),
    "overlap": ([tensor(b"a"), tensor(b"b", offset=0)], "expected 32"),
    "order": ([tensor(b"a", offset=32), tensor(b"b", offset=0)], "expected 0"),
    "twice": ([tensor(b"a"), tensor(b"a")], "stands in the file twice"),
    "long name": ([tensor(b"n" * 64)], "claims 64 bytes"),
    "empty name": ([tensor(b"")], "printable and not empty"),
    "name of other encoding": ([tensor(b"\xff\xfe")], "not valid UTF-8"),
    "name with an escape sequence": ([tensor(b"a\x1b[31m")], "printable"),
    "name with a line break": ([tensor(b"a\nb")], "printable"),
    "short data": ([tensor(payload=bytes(31))], "truncated"),
    "long data": ([tensor(payload=bytes(65))], "behind the last tensor"),
}


def llama(**changes: bytes | None) -> bytes:
    """A whole file whose metadata is changed; "ARCH__" stands for "llama."."""
    return llama_gguf(**changes)


EXPERTS = {"ARCH__expert_feed_forward_length": u32(8)}
MODELS: dict[str, tuple[bytes, str]] = {
    "fewer types than tokens": (llama(tokenizer__ggml__token_type=i32s([1] * 7)), "not an array of 8 numbers"),
    "more types than tokens": (llama(tokenizer__ggml__token_type=i32s([1] * 9)), "not an array of 8 numbers"),
    "fewer scores than tokens": (llama(tokenizer__ggml__scores=f32s([0.0])), "not an array of 8 numbers"),
    "more tokens than rows": (llama(tokenizer__ggml__tokens=strings(list("abcdefghi"))), "has 9 tokens and embeddings"),
    "token type 9": (llama(tokenizer__ggml__token_type=i32s([1] * 7 + [9])), "token 7 is 9"),
    "merge of no parts": (llama(tokenizer__ggml__merges=strings([""])), "entry 0 is ''"),
    "merge of three parts": (llama(tokenizer__ggml__merges=strings(["a b", "a b c"])), "entry 1 is 'a b c'"),
    "merge of unknown pieces": (llama(tokenizer__ggml__merges=strings(["x y"])), "cannot be built"),
    "two tokens with one text": (llama(tokenizer__ggml__tokens=strings(list("abcdefga"))), "tokens 0 and 7 are both"),
    "bos beyond the vocabulary": (llama(tokenizer__ggml__bos_token_id=u32(8)), "bos_token_id is 8"),
    "eos of 2^32 - 1": (llama(tokenizer__ggml__eos_token_id=u32((1 << 32) - 1)), "eos_token_id is 4294967295"),
    "no heads": (llama(ARCH__attention__head_count=u32(0)), "head_count is 0"),
    "no key heads": (llama(ARCH__attention__head_count_kv=u32(0)), "head_count_kv is 0"),
    "key heads that do not divide": (llama(ARCH__attention__head_count_kv=u32(3)), "cannot share 3 key/value heads"),
    "10^9 layers": (llama(ARCH__block_count=u32(10**9)), "block_count is 1000000000"),
    "no layers": (llama(ARCH__block_count=u32(0)), "block_count is 0"),
    "a head of 2^32 - 1": (llama(ARCH__attention__key_length=u32((1 << 32) - 1)), "dimension_count is 4294967295"),
    "a context of 2^32 - 1": (llama(ARCH__context_length=u32((1 << 32) - 1)), "cannot all be right"),
    "an embedding of nothing": (llama(ARCH__embedding_length=u32(0)), "embedding_length is 0"),
    "rotary beyond the head": (llama(ARCH__rope__dimension_count=u32(6)), "rope.dimension_count is 6"),
    "odd rotary": (llama(ARCH__rope__dimension_count=u32(3)), "rope.dimension_count is 3"),
    "more experts used than there are": (
        llama(ARCH__expert_count=u32(2), ARCH__expert_used_count=u32(3), **EXPERTS),
        "each token goes to 3 of 2 experts",
    ),
    "experts of 2^31": (
        llama(ARCH__expert_count=u32(1 << 31), ARCH__expert_used_count=u32(1), **EXPERTS),
        "1 of 2147483648 experts",
    ),
    "epsilon NaN": (llama(ARCH__attention__layer_norm_rms_epsilon=f32(float("nan"))), "expected a finite number"),
    "epsilon 0": (llama(ARCH__attention__layer_norm_rms_epsilon=f32(0.0)), "expected a number above 0"),
    "theta NaN": (llama(ARCH__rope__freq_base=f32(float("nan"))), "expected a finite number"),
    "theta infinite": (llama(ARCH__rope__freq_base=f32(float("inf"))), "expected a finite number"),
    "scaling by 0": (llama(ARCH__rope__scaling__factor=f32(0.0)), "expected a number above 0"),
    "heads as text": (llama(ARCH__attention__head_count=text("4")), "expected a whole number"),
    "heads as a float": (llama(ARCH__attention__head_count=f32(4.0)), "expected a whole number"),
    "heads as an array of floats": (llama(ARCH__attention__head_count=f32s([4.0])), "expected a whole number"),
    "no heads in an array": (llama(ARCH__attention__head_count=i32s([])), "head_count"),
    "architecture as a number": (llama(general__architecture=u32(1)), "expected text"),
    "65535 parts": (llama(split__count=u32(65535)), "split.count is 65535"),
    "parts as text": (llama(split__count=text("2")), "expected a whole number"),
    "another quantization version": (llama(general__quantization_version=u32(3)), "quantization_version is 3"),
    "a template of 5 MiB": (llama(tokenizer__chat_template=text("x" * (5 << 20))), "at most 4194304 bytes"),
}


def open_all(path: Path) -> None:
    """All that is made of the metadata of a file."""
    with GgufCheckpoint(path) as checkpoint:
        assert checkpoint.generation.eos_token_ids
        make_tokenizer(replace(checkpoint.tokenizer_source, pre="qwen2"))


@pytest.mark.parametrize("name", MODELS)
def test_models(path: Path, name: str) -> None:
    raw, message = MODELS[name]
    path.write_bytes(raw)
    tracemalloc.start()
    begin = time.perf_counter()
    try:
        with pytest.raises(CheckpointError, match=message):
            open_all(path)
        assert tracemalloc.get_traced_memory()[1] < MAX_REFUSAL_BYTES
        assert time.perf_counter() - begin < MAX_REFUSAL_S
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", HEADERS)
def test_headers(path: Path, name: str) -> None:
    refuse(path, *HEADERS[name])


@pytest.mark.parametrize("name", KEYS)
def test_keys(path: Path, name: str) -> None:
    raw, message = KEYS[name]
    refuse(path, gguf_bytes([], num_values=2 if name == "twice" else 1) + raw + bytes(64), message)


@pytest.mark.parametrize("name", VALUES)
def test_values(path: Path, name: str) -> None:
    raw, message = VALUES[name]
    refuse(path, gguf_bytes([("key", raw)]), message)


@pytest.mark.parametrize("value", ALIGNMENTS)
def test_alignments(path: Path, value: bytes) -> None:
    refuse(path, gguf_bytes([("general.alignment", value)], [tensor()]), r"general\.alignment is")


@pytest.mark.parametrize("name", TENSORS)
def test_tensors(path: Path, name: str) -> None:
    tensors, message = TENSORS[name]
    refuse(path, gguf_bytes([], tensors), message)


def test_every_truncation_is_refused(path: Path) -> None:
    raw = sound()
    path.write_bytes(raw)
    GgufCheckpoint(path).close()
    num_header_bytes = len(raw) - 12 * 64  # the matrices of 8 and of 4 rows
    for length in [*range(num_header_bytes), *range(num_header_bytes, len(raw), 61), len(raw) - 1]:
        path.write_bytes(raw[:length])
        with pytest.raises(CheckpointError):
            GgufCheckpoint(path)


def test_a_message_shows_no_control_characters(path: Path) -> None:
    path.write_bytes(gguf_bytes([], [tensor(b"a\x1b[31m\n")]))
    with pytest.raises(CheckpointError) as caught:
        read_container(path)
    assert str(caught.value).isprintable()


def read_everything(path: Path) -> None:
    """All that an engine does with a file before it computes."""
    with GgufCheckpoint(path) as checkpoint:
        source = checkpoint.tokenizer_source
        assert len(list(source.tokens)) <= checkpoint.spec.vocab_size
        assert all(0 <= end < checkpoint.spec.vocab_size for end in checkpoint.generation.eos_token_ids)
        for layer in checkpoint.spec.layers[:2]:
            if layer.rope is not None:
                rotary_frequencies(layer.rope, checkpoint.spec.max_position)
        for name in checkpoint.tensors:
            dequantize(checkpoint.read(name))


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_flipped_bytes_do_no_harm(path: Path, data: st.DataObject) -> None:
    raw = bytearray(sound())
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.sampled_from([0, 1, 2, 8, 127, 128, 255]))
    path.write_bytes(raw)
    tracemalloc.start()
    try:
        with suppress(CheckpointError):
            read_everything(path)
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < MAX_TRACED_BYTES


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=200))
def test_random_bytes_behind_a_header_do_no_harm(path: Path, tail: bytes) -> None:
    for counts in ((0, 1), (1, 0), (1, 1)):
        path.write_bytes(gguf_bytes([], num_tensors=counts[0], num_values=counts[1]) + tail)
        with suppress(CheckpointError):
            read_container(path)
