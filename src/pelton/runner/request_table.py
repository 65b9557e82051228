"""One row per live request: its tokens, its blocks, how it is sampled. A row never moves while its request lives.

A step's inputs are gathered from the rows in whatever order the step wants, so adding, finishing or reordering
requests touches no other row. What ends in `_N` is state and never an input of a model; what ends in `_R` is a step.

Letters: N rows, R requests in the step, M blocks per request at most, Z tokens per request at most.
Memory is 4 * N * (Z + M) bytes of address space, touched only as far as requests are long.
"""

from __future__ import annotations

from typing import final

import numpy as np
import numpy.typing as npt

from pelton.core.step import NewRequest, RequestId, ScheduledRequest
from pelton.errors import InternalError
from pelton.sampling.rule import compute_seed, get_banned_token_ids, get_temperature, has_penalties

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
Float32 = npt.NDArray[np.float32]


@final
class RequestTable:
    """Rows for at most `num_rows` requests of at most `max_model_len` tokens."""

    def __init__(
        self, num_rows: int, max_model_len: int, max_blocks_per_request: int, vocab_size: int, *, server_seed: int = 0
    ) -> None:
        N = num_rows
        self._vocab_size = vocab_size
        self._server_seed = server_seed
        self._free_rows = list(range(N - 1, -1, -1))
        self._row: dict[RequestId, int] = {}
        self.token_ids_NZ: Int32 = np.zeros((N, max_model_len), np.int32)
        self.num_tokens_N: Int64 = np.zeros(N, np.int64)
        self.num_prompt_N: Int64 = np.zeros(N, np.int64)
        self.block_table_NM: Int32 = np.full((N, max_blocks_per_request), -1, np.int32)
        self._num_blocks = [0] * N
        self.temperature_N: Float32 = np.zeros(N, np.float32)
        self.top_k_N: Int32 = np.zeros(N, np.int32)
        self.top_p_N: Float32 = np.ones(N, np.float32)
        self.min_p_N: Float32 = np.zeros(N, np.float32)
        self.presence_N: Float32 = np.zeros(N, np.float32)
        self.frequency_N: Float32 = np.zeros(N, np.float32)
        self.repetition_N: Float32 = np.ones(N, np.float32)
        self.seed_N: npt.NDArray[np.uint64] = np.zeros(N, np.uint64)
        self.num_logprobs_N: Int32 = np.full(N, -1, np.int32)
        self.min_tokens_N: Int64 = np.zeros(N, np.int64)
        self.has_penalties_N: npt.NDArray[np.bool_] = np.zeros(N, np.bool_)
        self.has_bias_N: npt.NDArray[np.bool_] = np.zeros(N, np.bool_)
        self.bias_N: list[tuple[Int32, Float32]] = [_make_bias({})] * N
        self.bias_with_bans_N: list[tuple[Int32, Float32]] = [_make_bias({})] * N  # before min_tokens outputs

    @property
    def num_requests(self) -> int:
        """Rows in use."""
        return len(self._row)

    def add(self, new: NewRequest) -> None:
        """Give a request the row that was freed last."""
        if not self._free_rows or new.request_id in self._row:
            why = "has a row already" if new.request_id in self._row else f"finds all {len(self._row)} rows in use"
            raise InternalError(f"request table: {new.request_id!r} {why}.", request_id=new.request_id)
        row = self._row[new.request_id] = self._free_rows.pop()
        num_prompt = len(new.prompt_token_ids)
        num_tokens = num_prompt + len(new.output_token_ids)
        self.token_ids_NZ[row, :num_prompt] = new.prompt_token_ids
        self.token_ids_NZ[row, num_prompt:num_tokens] = new.output_token_ids
        self.num_tokens_N[row] = num_tokens
        self.num_prompt_N[row] = num_prompt
        self._fill_sampling(row, new)

    def remove(self, request_id: RequestId) -> None:
        """Free a request's row."""
        row = self._row.pop(request_id)
        self.block_table_NM[row, : self._num_blocks[row]] = -1
        self._num_blocks[row] = 0
        self._free_rows.append(row)

    def gather_rows(self, scheduled: tuple[ScheduledRequest, ...]) -> Int64:
        """rows_R of the step's requests. Also writes down the blocks that they got since their last step."""
        rows: list[int] = []
        for part in scheduled:
            row = self._row[part.request_id]
            rows.append(row)
            num_known, num_blocks = self._num_blocks[row], len(part.block_ids)
            if num_blocks != num_known:  # a live request's table only grows
                self.block_table_NM[row, num_known:num_blocks] = part.block_ids[num_known:]
                self._num_blocks[row] = num_blocks
        return np.array(rows, np.int64)

    def append(self, rows_S: Int64, token_ids_S: Int32) -> None:
        """Add a token to each row. Ids that are none are left out: their requests end."""
        is_token_S = (token_ids_S >= 0) & (token_ids_S < self._vocab_size)
        rows_S, token_ids_S = rows_S[is_token_S], token_ids_S[is_token_S]
        self.token_ids_NZ[rows_S, self.num_tokens_N[rows_S]] = token_ids_S
        self.num_tokens_N[rows_S] += 1

    def _fill_sampling(self, row: int, new: NewRequest) -> None:
        sampling = new.sampling
        self.temperature_N[row] = get_temperature(sampling)
        self.top_k_N[row] = max(sampling.top_k, 0)
        self.top_p_N[row] = sampling.top_p
        self.min_p_N[row] = sampling.min_p
        self.presence_N[row] = sampling.presence_penalty
        self.frequency_N[row] = sampling.frequency_penalty
        self.repetition_N[row] = sampling.repetition_penalty
        self.seed_N[row] = compute_seed(new, self._server_seed)
        self.num_logprobs_N[row] = -1 if sampling.logprobs is None else sampling.logprobs
        self.has_penalties_N[row] = has_penalties(sampling)
        banned = [token_id for token_id in get_banned_token_ids(new) if token_id < self._vocab_size]
        self.min_tokens_N[row] = sampling.min_tokens if banned else 0
        self.has_bias_N[row] = bool(sampling.logit_bias)
        self.bias_N[row] = _make_bias(sampling.logit_bias)
        self.bias_with_bans_N[row] = _make_bias(sampling.logit_bias | dict.fromkeys(banned, -np.inf))


def _make_bias(bias: dict[int, float]) -> tuple[Int32, Float32]:
    token_ids = sorted(bias)
    return np.array(token_ids, np.int32), np.array([bias[token_id] for token_id in token_ids], np.float32)
