"""A model stored in any scheme of GGUF says what its twin with the same numbers in F32 says, on every backend."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from pelton.backends.cpu import CpuBackend
from pelton.backends.executable import Backend, Limits
from pelton.backends.reference import ReferenceBackend
from pelton.checkpoint.checkpoint import open_checkpoint
from pelton.checkpoint.dequantize import dequantize_rows
from pelton.checkpoint.gguf.writer import write_gguf
from pelton.checkpoint.outgoing import Outgoing
from pelton.checkpoint.scheme import EXPANDED, SCHEMES, row_bytes
from pelton.checkpoint.weight import Bytes
from pelton.loading import load_model
from pelton.runner.direct_step import logits_of
from pelton.runner.kv_pool import KvPool

pytestmark = pytest.mark.cpu

HIDDEN, VOCAB = 256, 32
PROMPT = [int(x) for x in np.random.default_rng(7).integers(0, VOCAB, 12)]
LIMITS = Limits(
    max_num_batched_tokens=16,
    max_num_requests=1,
    max_num_logits_rows=16,
    block_size=16,
    max_blocks_per_request=1,
    num_threads=1,
    exact=True,
)
METADATA = {
    "general.architecture": "llama",
    "llama.context_length": 64,
    "llama.embedding_length": HIDDEN,
    "llama.block_count": 1,
    "llama.feed_forward_length": HIDDEN,
    "llama.attention.head_count": 4,
    "llama.attention.head_count_kv": 4,
    "llama.attention.layer_norm_rms_epsilon": 1e-5,
    "llama.rope.freq_base": 10000.0,
}
MATRICES = ["token_embd"] + [
    f"blk.0.{name}" for name in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")
]
IN_FILES = sorted(name for name in EXPANDED if SCHEMES[name].gguf_id is not None)


def payload(scheme: str, num_rows: int, seed: int) -> Bytes:
    """Random rows with numbers of moderate size: scales of 2^-9 or so."""
    rows = np.random.default_rng(seed).integers(0, 256, (num_rows, row_bytes(scheme, HIDDEN)), dtype=np.uint8)
    blocks = rows.reshape(-1, SCHEMES[scheme].block_bytes)
    if scheme == "F64":
        return np.random.default_rng(seed).normal(size=(num_rows, HIDDEN)).astype("<f4").astype("<f8").view(np.uint8)
    if scheme == "Q8_K":
        blocks[:, :4] = np.array([2.0**-11], "<f4").view(np.uint8)
    elif scheme == "NVFP4":
        blocks[:, :4] &= 0x1F
    elif scheme == "IQ1_M":
        blocks[:, 49:56:2] &= 0x0F
        blocks[:, 55] |= 0x10
    else:
        at = SCHEMES[scheme].block_bytes - 2 if scheme.startswith("TQ") else 0
        blocks[:, at : at + 2] = np.array([2.0**-8], "<f2").view(np.uint8)
    return rows


def write(path: Path, of: Callable[[str, int], tuple[str, Bytes]], more: Sequence[Outgoing] = ()) -> None:
    tensors = [norm(name) for name in ("output_norm", "blk.0.attn_norm", "blk.0.ffn_norm")]
    for seed, name in enumerate(MATRICES):
        num_rows = VOCAB if name == "token_embd" else HIDDEN
        scheme, rows = of(name, num_rows * 100 + seed)
        tensors.append(Outgoing(f"{name}.weight", (num_rows, HIDDEN), scheme, lambda rows=rows: rows))
    write_gguf(path, METADATA, [*tensors, *more])


def norm(name: str) -> Outgoing:
    return Outgoing(f"{name}.weight", (HIDDEN,), "F32", lambda: np.ones((1, HIDDEN), "<f4").view(np.uint8))


def logits(path: Path, backend: Backend) -> np.ndarray:
    executable = load_model(open_checkpoint(path), backend, LIMITS, max_model_len=16).executable
    executable.bind_kv(KvPool(2, executable.kv_bytes_per_block).memory, 2)
    return logits_of(executable, PROMPT, [1], chunk=16, max_blocks=1)


@pytest.mark.parametrize("scheme", [name for name in IN_FILES if name not in {"Q8_1", "Q8_K"}])
def test_logits_are_those_of_the_numbers(scheme: str, tmp_path: Path) -> None:
    write(tmp_path / "stored.gguf", lambda _, seed: (scheme, payload(scheme, seed // 100, seed)))
    write(
        tmp_path / "plain.gguf",
        lambda _, seed: ("F32", dequantize_rows(scheme, payload(scheme, seed // 100, seed)).view(np.uint8)),
    )
    expected = logits(tmp_path / "plain.gguf", ReferenceBackend("float32"))
    assert np.isfinite(expected).all()
    assert expected.std() > 1e-3
    np.testing.assert_array_equal(logits(tmp_path / "stored.gguf", ReferenceBackend("float32")), expected)
    found = logits(tmp_path / "stored.gguf", CpuBackend())
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-3 * expected.std())


def test_scales_of_whole_tensors_are_applied_once(tmp_path: Path) -> None:
    """Gates and ups, which become one matrix, have different ones."""
    scales = dict(zip(MATRICES, np.array([1, 2, 3, 0.7, 1.1, 0.3, 8, 0.5], "<f4"), strict=True))

    def values(name: str, seed: int) -> tuple[str, Bytes]:
        numbers = dequantize_rows("NVFP4", payload("NVFP4", seed // 100, seed)) * scales[name]
        return "F32", numbers.view(np.uint8)

    beside = [
        Outgoing(f"{name}.scale", (1,), "F32", lambda scale=scale: scale.reshape(1, 1).view(np.uint8))
        for name, scale in scales.items()
    ]
    write(tmp_path / "stored.gguf", lambda _, seed: ("NVFP4", payload("NVFP4", seed // 100, seed)), beside)
    write(tmp_path / "plain.gguf", values)
    expected = logits(tmp_path / "plain.gguf", ReferenceBackend("float32"))
    np.testing.assert_array_equal(logits(tmp_path / "stored.gguf", ReferenceBackend("float32")), expected)
    found = logits(tmp_path / "stored.gguf", CpuBackend())
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-3 * expected.std())
