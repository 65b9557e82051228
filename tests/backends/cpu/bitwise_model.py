"""A small model of the demo's architecture in the schemes of real files, and what it says: for tests of equal bits.

`python -m tests.backends.cpu.bitwise_model FILE MODE ISA` prints a hash of its answer, from a process of its own.
"""

from __future__ import annotations

import hashlib
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from tests.conformance.scheme import random_weight
from tests.model_files import GgufTensor, gguf_bytes, i32s, llama_metadata, strings, u32

from pelton.backends.cpu import CpuBackend, set_isa
from pelton.backends.executable import Executable, Limits, StepResult
from pelton.checkpoint.checkpoint import open_checkpoint
from pelton.loading import load_model

VOCAB, HIDDEN, FEED_FORWARD, HEADS, KV_HEADS, LAYERS = 320, 256, 512, 4, 2, 2
HEAD_DIM = HIDDEN // HEADS
NUM_TOKENS = 530  # contexts that cross a split of 512 tokens
NUM_OTHERS = 40
BLOCK_SIZE, MAX_BLOCKS = 16, 34
NUM_BLOCKS = MAX_BLOCKS + 4 * NUM_OTHERS
TOKENS: list[int] = np.random.default_rng(5).integers(0, VOCAB, NUM_TOKENS).tolist()
GGUF_TYPES = {"Q5_0": 6, "Q8_0": 8, "Q4_K": 12, "Q6_K": 14}
MODES: dict[str, dict[str, object]] = {
    "default": {},
    "wide head": {"wide_activations": "head"},
    "wide": {"wide_activations": "all"},
    "exact": {"exact": True},
}


def vector(name: str, size: int) -> GgufTensor:
    values = np.random.default_rng(sum(map(ord, name))).normal(0.5, 0.5, size).astype("<f4")
    return GgufTensor(name=name.encode(), dims=(size,), payload=values.tobytes())


def matrix(name: str, rows: int, columns: int, scheme: str) -> GgufTensor:
    payload = random_weight(name, np.empty((rows, columns)), scheme).parts[0].payload
    return GgufTensor(
        name=name.encode(), dims=(columns, rows), type_id=GGUF_TYPES[scheme], payload=np.asarray(payload).tobytes()
    )


def write_model(path: Path) -> None:
    """A file like the demo's: Q5_0 and Q8_0 with some Q4_K and Q6_K, biases on q, k and v, a tied head."""
    metadata = llama_metadata(
        "qwen2",
        ARCH__context_length=u32(1024),
        ARCH__embedding_length=u32(HIDDEN),
        ARCH__block_count=u32(LAYERS),
        ARCH__feed_forward_length=u32(FEED_FORWARD),
        ARCH__attention__head_count=u32(HEADS),
        ARCH__attention__head_count_kv=u32(KV_HEADS),
        tokenizer__ggml__tokens=strings([f"<{i}>" for i in range(VOCAB)]),
        tokenizer__ggml__token_type=i32s([1] * VOCAB),
    )
    tensors = [matrix("token_embd.weight", VOCAB, HIDDEN, "Q8_0"), vector("output_norm.weight", HIDDEN)]
    for layer in range(LAYERS):
        kv_size = KV_HEADS * HEAD_DIM
        for name, rows, columns, scheme in (
            ("attn_q", HIDDEN, HIDDEN, "Q5_0"),
            ("attn_k", kv_size, HIDDEN, "Q5_0"),
            ("attn_v", kv_size, HIDDEN, "Q8_0"),
            ("attn_output", HIDDEN, HIDDEN, "Q5_0"),
            ("ffn_gate", FEED_FORWARD, HIDDEN, "Q5_0" if layer else "Q4_K"),
            ("ffn_up", FEED_FORWARD, HIDDEN, "Q5_0" if layer else "Q4_K"),
            ("ffn_down", HIDDEN, FEED_FORWARD, "Q6_K" if layer else "Q4_K"),
        ):
            tensors.append(matrix(f"blk.{layer}.{name}.weight", rows, columns, scheme))
        for name, size in (("attn_q", HIDDEN), ("attn_k", kv_size), ("attn_v", kv_size)):
            tensors.append(vector(f"blk.{layer}.{name}.bias", size))
        tensors += [vector(f"blk.{layer}.{name}_norm.weight", HIDDEN) for name in ("attn", "ffn")]
    path.write_bytes(gguf_bytes(metadata, tensors))


def limits_of(mode: str, num_threads: int) -> Limits:
    return Limits(
        max_num_batched_tokens=NUM_TOKENS + 4 * NUM_OTHERS,
        max_num_requests=1 + NUM_OTHERS,
        max_num_logits_rows=NUM_TOKENS + 4 * NUM_OTHERS,
        block_size=BLOCK_SIZE,
        max_blocks_per_request=MAX_BLOCKS,
        num_threads=num_threads,
        **MODES[mode],  # type: ignore[arg-type]
    )


def load(path: Path, mode: str, num_threads: int = 1, *, offset: int = 0) -> Executable:
    """The model with a cache full of nonsense, `offset` cache lines behind the beginning of a page."""
    executable = load_model(open_checkpoint(path), CpuBackend(), limits_of(mode, num_threads), NUM_TOKENS).executable
    memory = np.full(NUM_BLOCKS * executable.kv_bytes_per_block + 4096 + 64 * offset, 0xFF, np.uint8)
    first = -memory.ctypes.data % 4096 + 64 * offset
    executable.bind_kv(memory[first:], NUM_BLOCKS)
    return executable


@dataclass(frozen=True, slots=True)
class Answer:
    """What a model says to each token: every logit, what was sampled, and its log-probability."""

    logits_TV: npt.NDArray[np.float32]
    token_ids_T: npt.NDArray[np.int32]
    logprob_T: npt.NDArray[np.float32]

    @classmethod
    def of(cls, result: StepResult, first: int, count: int) -> Answer:
        """The answer to `count` tokens of a step."""
        assert result.logits_SV is not None
        part = slice(first, first + count)
        return cls(result.logits_SV[part], result.token_ids_S[part], result.logprob_S[part])

    def rows(self, first: int, last: int) -> Answer:
        """The answer to some of the tokens."""
        return Answer(self.logits_TV[first:last], self.token_ids_T[first:last], self.logprob_T[first:last])

    def digest(self) -> str:
        """Of every bit."""
        return hashlib.sha256(
            b"".join(a.tobytes() for a in (self.logits_TV, self.token_ids_T, self.logprob_T))
        ).hexdigest()


def check_equal(given: Answer, expected: Answer, what: str) -> None:
    """Every bit."""
    np.testing.assert_array_equal(given.logits_TV.view(np.uint32), expected.logits_TV.view(np.uint32), err_msg=what)
    np.testing.assert_array_equal(given.token_ids_T, expected.token_ids_T, err_msg=what)
    np.testing.assert_array_equal(given.logprob_T.view(np.uint32), expected.logprob_T.view(np.uint32), err_msg=what)


def main() -> None:
    """Print the hash of what the model says to TOKENS, alone and at once."""
    from tests.backends.cpu.test_bitwise import whole_answer  # noqa: PLC0415 - it imports this module

    set_isa(sys.argv[3])
    print(whole_answer(load(Path(sys.argv[1]), sys.argv[2])).digest())


if __name__ == "__main__":
    main()
