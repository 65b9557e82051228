"""An executable without a model: a KV cache of token ids inside the bound memory, and the hash as the next token."""

from __future__ import annotations

import numpy as np
from tests.engine.fakes import VOCAB_SIZE, compute_next_token

from pelton.backends.executable import Bytes, Executable, Limits, StepInputs, StepResult
from pelton.runner.kv_pool import KvPool
from pelton.runner.model_runner import ModelRunner


class HashExecutable(Executable):
    """Chooses the hash of all tokens that it reads back through the block table. Checks the shapes it is given."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.steps: list[StepInputs] = []

    @property
    def kv_bytes_per_block(self) -> int:
        """One int32 per token."""
        return 4 * self.limits.block_size

    def bind_kv(self, memory: Bytes, num_blocks: int) -> None:
        """Keep the memory as an array of slots."""
        self.slots = memory.view(np.int32)[: num_blocks * self.limits.block_size]

    def copy_block(self, source: int, target: int) -> None:
        """Slot by slot."""
        size = self.limits.block_size
        self.slots[target * size : (target + 1) * size] = self.slots[source * size : (source + 1) * size]

    def run(self, inputs: StepInputs, *, want_logits: bool = False) -> StepResult:
        """Write, read back, hash."""
        self.check(inputs)
        self.steps.append(inputs)
        block_size = self.limits.block_size
        num_requests = len(inputs.context_len_R)
        request_T = np.repeat(np.arange(num_requests), np.diff(inputs.query_start_R1))
        block_T = inputs.block_table_RM[request_T, inputs.positions_T // block_size]
        assert (block_T >= 0).all(), "a token without a block"
        self.slots[block_T * block_size + inputs.positions_T % block_size] = inputs.token_ids_T
        chosen = []
        for index in inputs.logits_index_S.tolist():
            request = request_T[index]
            positions = np.arange(inputs.context_len_R[request])
            blocks = inputs.block_table_RM[request, positions // block_size]
            chosen.append(self.choose(self.slots[blocks * block_size + positions % block_size].tolist()))
        num_rows = len(chosen)
        num_top = max(int(inputs.sampling.num_logprobs_S.max(initial=0)), 0)
        return StepResult(
            token_ids_S=np.array(chosen, np.int32),
            logprob_S=np.full(num_rows, -0.5, np.float32),
            top_ids_SL=np.tile(np.arange(num_top, dtype=np.int32), (num_rows, 1)),
            top_logprobs_SL=np.tile(-np.arange(num_top, dtype=np.float32), (num_rows, 1)),
        )

    def choose(self, token_ids: list[int]) -> int:
        """The token after `token_ids`."""
        return compute_next_token(token_ids)

    def check(self, inputs: StepInputs) -> None:
        """What `backends.executable` promises of types, lengths and bounds."""
        limits = self.limits
        num_tokens, num_requests, num_rows = (
            len(inputs.token_ids_T), len(inputs.context_len_R), len(inputs.logits_index_S),
        )  # fmt: skip
        assert num_tokens <= limits.max_num_batched_tokens
        assert num_requests <= limits.max_num_requests
        assert num_rows <= limits.max_num_logits_rows
        assert inputs.block_table_RM.shape == (num_requests, limits.max_blocks_per_request)
        assert inputs.query_start_R1[0] == 0
        assert inputs.query_start_R1[-1] == num_tokens
        for array in (
            inputs.token_ids_T, inputs.positions_T, inputs.query_start_R1, inputs.context_len_R,
            inputs.block_table_RM, inputs.logits_index_S,
        ):  # fmt: skip
            assert array.dtype == np.int32
            assert array.flags.c_contiguous
        sampling = inputs.sampling
        lengths = {
            "temperature_S": "f4", "top_k_S": "i4", "top_p_S": "f4", "min_p_S": "f4", "presence_S": "f4",
            "frequency_S": "f4", "repetition_S": "f4", "seed_S": "u8", "position_S": "i8", "num_logprobs_S": "i4",
            "history_num_prompt_S": "i4",
        }  # fmt: skip
        for name, dtype in lengths.items():
            array = getattr(sampling, name)
            assert (len(array), array.dtype) == (num_rows, np.dtype(dtype)), name
        for name in ("history_start_S1", "bias_start_S1"):
            assert len(getattr(sampling, name)) == num_rows + 1, name
        assert sampling.history_ids.dtype == sampling.bias_ids.dtype == np.int32
        assert sampling.history_start_S1[-1] == len(sampling.history_ids)
        assert sampling.bias_start_S1[-1] == len(sampling.bias_ids) == len(sampling.bias_values)

    def explain(self) -> list[tuple[str, str, str]]:
        """Nothing to tell."""
        return []


def make_limits(**changes: int) -> Limits:
    """Small limits, with `changes`."""
    values = {
        "max_num_batched_tokens": 64,
        "max_num_requests": 8,
        "max_num_logits_rows": 8,
        "block_size": 4,
        "max_blocks_per_request": 64,
        "num_threads": 1,
    }
    return Limits(**(values | changes))


def make_runner(num_blocks: int = 64, **changes: int) -> tuple[ModelRunner, HashExecutable]:
    """A runner over a hash executable."""
    limits = make_limits(**changes)
    executable = HashExecutable(limits)
    pool = KvPool(num_blocks, executable.kv_bytes_per_block)
    max_model_len = limits.max_blocks_per_request * limits.block_size
    return ModelRunner(executable, limits, pool, max_model_len=max_model_len, vocab_size=VOCAB_SIZE), executable
