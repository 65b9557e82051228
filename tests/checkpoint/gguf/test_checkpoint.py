"""A GGUF file as a checkpoint: tensors, end ids, sampling defaults, tokenizer, and whole files that are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, quants
from tests.model_files import GgufTensor, f32, f32s, flag, gguf_bytes, gguf_matrix, i32s, llama_gguf, strings, text, u32

from pelton.checkpoint.dequantize import dequantize
from pelton.checkpoint.gguf.checkpoint import GgufCheckpoint
from pelton.errors import CheckpointError

pytestmark = pytest.mark.unit


def open_file(tmp_path: Path, raw: bytes) -> GgufCheckpoint:
    path = tmp_path / "model.gguf"
    path.write_bytes(raw)
    return GgufCheckpoint(path)


def open_llama(tmp_path: Path, *, tensors: list[GgufTensor] | None = None, **changes: bytes | None) -> GgufCheckpoint:
    return open_file(tmp_path, llama_gguf(tensors=tensors or [], **changes))


def test_tensors_are_views_with_rows(tmp_path: Path) -> None:
    matrix = gguf_matrix("blk.0.attn_q.weight", 4, 16, seed=3)
    with open_llama(tmp_path, tensors=[matrix]) as checkpoint:
        assert checkpoint.naming == "gguf"
        assert checkpoint.path == tmp_path / "model.gguf"
        assert list(checkpoint.tensors) == ["token_embd.weight", "blk.0.attn_q.weight"]
        assert checkpoint.weight_bytes == (8 + 4) * 16 * 4
        tensor = checkpoint.read("blk.0.attn_q.weight")
    assert (tensor.shape, tensor.scheme, tensor.payload.shape) == ((4, 16), "F32", (4, 64))
    assert tensor.payload.base is not None
    assert dequantize(tensor).tobytes() == matrix.payload  # still valid after close
    with pytest.raises(CheckpointError, match="is closed"):
        checkpoint.read("token_embd.weight")


@pytest.mark.parametrize("kind", [GGMLQuantizationType.IQ4_NL, GGMLQuantizationType.IQ4_XS, GGMLQuantizationType.MXFP4])
def test_codes_are_read_as_the_reference_reads_them(tmp_path: Path, kind: GGMLQuantizationType) -> None:
    _, block_bytes = GGML_QUANT_SIZES[kind]
    num_blocks = 256 // GGML_QUANT_SIZES[kind][0]
    payload = (np.arange(2 * num_blocks * block_bytes) % 101).astype(np.uint8).reshape(2, -1)
    coded = GgufTensor(name=b"output.weight", dims=(256, 2), type_id=int(kind), payload=payload.tobytes())
    tensor = open_llama(tmp_path, tensors=[coded]).read("output.weight")
    assert (tensor.shape, tensor.scheme) == ((2, 256), kind.name)
    np.testing.assert_array_equal(dequantize(tensor), quants.dequantize(payload, kind))


def test_unknown_and_unusable_tensors_are_refused_when_read(tmp_path: Path) -> None:
    exotic = GgufTensor(name=b"output.weight", dims=(8, 1), type_id=24, payload=bytes(8))
    checkpoint = open_llama(tmp_path, tensors=[exotic])
    with pytest.raises(CheckpointError, match=r"'output\.weight' is stored as I8"):
        checkpoint.read("output.weight")
    with pytest.raises(CheckpointError, match=r"no tensor 'output\.weigth'\. Did you mean 'output\.weight'"):
        checkpoint.read("output.weigth")


def test_generation_defaults(tmp_path: Path) -> None:
    defaults = open_llama(
        tmp_path,
        tokenizer__ggml__eot_token_id=u32(5),
        tokenizer__ggml__eom_token_id=u32(7),
        general__sampling__temp=f32(0.7),
        general__sampling__top_k=u32(20),
        general__sampling__top_p=f32(0.8),
        general__sampling__min_p=f32(0.05),
        general__sampling__penalty_repeat=f32(1.1),
    ).generation
    assert defaults.eos_token_ids == (7, 5)
    assert defaults.bos_token_id == 0
    sampling = (defaults.temperature, defaults.top_k, defaults.top_p, defaults.min_p, defaults.repetition_penalty)
    assert sampling == (0.7, 20, 0.8, 0.05, 1.1)
    assert defaults.max_new_tokens is None


def test_tokenizer_source_carries_all_of_it(tmp_path: Path) -> None:
    source = open_llama(
        tmp_path,
        tokenizer__ggml__scores=f32s([-float(i) for i in range(8)]),
        tokenizer__ggml__merges=strings(["a b"]),
        tokenizer__ggml__add_space_prefix=flag(0),
        tokenizer__chat_template=text("{{ messages }}"),
    ).tokenizer_source
    assert (source.model, source.pre, list(source.tokens), list(source.merges)) == (
        "gpt2",
        "default",
        list("abcdefgh"),
        ["a b"],
    )
    assert list(source.scores) == [-float(i) for i in range(8)]
    assert list(source.token_types) == [1] * 8
    assert source.ids == {"eos_token_id": 7, "bos_token_id": 0}
    assert source.flags == {"add_bos_token": True, "add_space_prefix": False}
    assert source.chat_template == "{{ messages }}"


def test_what_a_file_may_leave_out(tmp_path: Path) -> None:
    checkpoint = open_llama(
        tmp_path,
        tokenizer__ggml__pre=None,
        tokenizer__ggml__token_type=None,
        tokenizer__ggml__merges=None,
        tokenizer__ggml__bos_token_id=None,
        tokenizer__ggml__eos_token_id=None,
    )
    source = checkpoint.tokenizer_source
    assert (source.pre, source.chat_template) == ("", None)
    assert [len(part) for part in (source.scores, source.token_types, source.merges, source.ids)] == [0, 0, 0, 0]
    assert (checkpoint.generation.eos_token_ids, checkpoint.generation.bos_token_id) == ((), None)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tokenizer__ggml__tokens": None}, "holds no tokenizer"),
        ({"tokenizer__ggml__tokens": i32s([1])}, "not an array of strings"),
        ({"tokenizer__ggml__tokens": strings(list("abcdefghi"))}, "has 9 tokens and embeddings for only 8"),
        ({"tokenizer__ggml__tokens": strings(list("abc"))}, "token_type is not an array of 3 numbers"),
        ({"tokenizer__ggml__token_type": i32s([1] * 7)}, "token_type is not an array of 8 numbers"),
        ({"tokenizer__ggml__scores": i32s([1] * 8)}, "scores is not an array of 8 numbers"),
        ({"tokenizer__ggml__merges": text("a b")}, "merges is not an array of strings"),
        ({"tokenizer__ggml__model": None}, "tokenizer.ggml.model is missing"),
        ({"tokenizer__ggml__unknown_token_id": u32(8)}, "unknown_token_id is 8; the model has 8 tokens"),
        ({"tokenizer__ggml__bos_token_id": text("a")}, "bos_token_id is 'a'"),
    ],
)
def test_a_broken_tokenizer_is_refused(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        _ = open_llama(tmp_path, **changes).tokenizer_source


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"split__count": u32(65535)}, "split.count is 65535; a model has at most 1000 parts"),
        ({"split__count": u32(2)}, "one of 2 parts"),
        ({"general__quantization_version": u32(1)}, "quantization_version is 1; blocks are understood as version 2"),
        ({"general__type": text("adapter")}, "holds a 'adapter', not a model"),
        ({"general__architecture": text("clip")}, "'clip' is not supported"),
        ({"general__architecture": None}, "general.architecture is missing"),
        ({"general__architecture": u32(1)}, "expected text"),
    ],
)
def test_files_that_are_not_a_whole_model(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        open_llama(tmp_path, **changes)


def test_a_file_without_tensors_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="holds no tensors"):
        open_file(tmp_path, gguf_bytes([("general.architecture", text("llama"))]))
    with pytest.raises(CheckpointError, match=r"token_embd\.weight is missing"):
        open_file(
            tmp_path,
            gguf_bytes(
                [("general.architecture", text("llama"))]
                + [(f"llama.{key}", u32(4)) for key in ("embedding_length", "attention.head_count")],
                [gguf_matrix("other", 2, 2)],
            ),
        )


def test_an_id_out_of_range_is_refused_for_generation_too(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="eos_token_id is 9"):
        _ = open_llama(tmp_path, tokenizer__ggml__eos_token_id=u32(9)).generation


def test_bfloat16_rows(tmp_path: Path) -> None:
    values = np.array([1.0, -2.5], np.float32)
    raw = (values.view(np.uint32) >> 16).astype("<u2").tobytes()
    tensor = GgufTensor(name=b"x", dims=(2,), type_id=30, payload=raw)
    read = open_llama(tmp_path, tensors=[tensor]).read("x")
    assert (read.shape, read.payload.shape, dequantize(read).tolist()) == ((2,), (1, 4), [1.0, -2.5])
