"""llama.cpp on a GGUF file, through its C interface: one batch, all requests decoded together.

Install: python -m venv .peers/llama && CMAKE_ARGS=-DGGML_NATIVE=ON .peers/llama/bin/pip install llama-cpp-python numpy
(it builds from source: about six minutes on two cores)

Its defaults: weights repacked for this machine, 8-bit activations, keys and values in float16, 512 tokens a step.
"""

from __future__ import annotations

import argparse
import ctypes

import llama_cpp as lc
import numpy as np
from workload import Engine, run_peer

MAX_STEP_TOKENS = 512


class LlamaCpp(Engine):
    """One model; a context as large as the leg at hand."""

    name = "llama.cpp"
    version = lc.__version__

    def __init__(self, args: argparse.Namespace) -> None:
        lc.llama_backend_init()
        params = lc.llama_model_default_params()
        self.model = lc.llama_model_load_from_file(args.model.encode(), params)
        if not self.model:
            raise SystemExit(f"llama.cpp cannot load {args.model}")
        self.threads = args.threads
        text = ctypes.create_string_buffer(128)
        lc.llama_model_desc(self.model, text, len(text))
        self.precision = text.value.decode()
        self.num_vocab = lc.llama_vocab_n_tokens(lc.llama_model_get_vocab(self.model))
        self.context = None
        self.shape = (0, 0)

    def prepare(self, batch: int, length: int) -> None:
        """A context for exactly this leg: a larger one would cost nothing but memory."""
        if self.shape == (batch, length):
            return
        if self.context is not None:
            lc.llama_free(self.context)
        params = lc.llama_context_default_params()
        params.n_ctx = batch * length
        params.n_batch = params.n_ubatch = MAX_STEP_TOKENS
        params.n_seq_max = batch
        params.n_threads = params.n_threads_batch = self.threads
        params.kv_unified = True
        self.context = lc.llama_init_from_model(self.model, params)
        if not self.context:
            raise MemoryError(f"llama.cpp makes no context for {batch} requests of {length} tokens")
        self.shape = (batch, length)

    def generate(self, prompts: list[list[int]], new_tokens: int) -> None:
        """All prompts in steps of MAX_STEP_TOKENS, then one token of every request a step."""
        lc.llama_memory_clear(lc.llama_get_memory(self.context), True)
        entries = [
            (token, position, request, position == len(prompt) - 1)
            for request, prompt in enumerate(prompts)
            for position, token in enumerate(prompt)
        ]
        tokens: list[int] = []
        for start in range(0, len(entries), MAX_STEP_TOKENS):
            tokens += self.step(entries[start : start + MAX_STEP_TOKENS])
        for step in range(new_tokens - 1):
            position = len(prompts[0]) + step
            tokens = self.step([(token, position, request, True) for request, token in enumerate(tokens)])

    def step(self, entries: list[tuple[int, int, int, bool]]) -> list[int]:
        """Run (token, position, request, wants logits) entries; the greedy token of each that wants logits."""
        self.decode(entries)
        return [int(np.argmax(self.logits_of(row))) for row, entry in enumerate(entries) if entry[3]]

    def decode(self, entries: list[tuple[int, int, int, bool]]) -> None:
        """One step."""
        batch = lc.llama_batch_init(len(entries), 0, 1)
        batch.n_tokens = len(entries)
        for row, (token, position, request, wants_logits) in enumerate(entries):
            batch.token[row], batch.pos[row], batch.n_seq_id[row] = token, position, 1
            batch.seq_id[row][0], batch.logits[row] = request, wants_logits
        status = lc.llama_decode(self.context, batch)
        lc.llama_batch_free(batch)
        if status != 0:
            raise RuntimeError(f"llama_decode gave {status} for {len(entries)} tokens")

    def logits_of(self, row: int) -> np.ndarray:
        """A view of the logits of one row of the last step."""
        pointer = lc.llama_get_logits_ith(self.context, row)
        return np.ctypeslib.as_array(ctypes.cast(pointer, ctypes.POINTER(ctypes.c_float)), shape=(self.num_vocab,))

    def write_logits(self, token_ids: list[int], position: int, window: int, file: str) -> tuple[int, int]:
        """Pieces of MAX_STEP_TOKENS are computed as llama.cpp computes a prompt by default."""
        if position == 0:
            self.prepare(1, window)
            lc.llama_memory_clear(lc.llama_get_memory(self.context), True)
        with open(file, "wb") as out:
            for start in range(0, len(token_ids), MAX_STEP_TOKENS):
                piece = token_ids[start : start + MAX_STEP_TOKENS]
                self.decode([(token, position + start + i, 0, True) for i, token in enumerate(piece)])
                for row in range(len(piece)):
                    self.logits_of(row).tofile(out)
        return len(token_ids), self.num_vocab


if __name__ == "__main__":
    run_peer(__doc__, LlamaCpp)
