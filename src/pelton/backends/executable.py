"""The contract between the runner and a backend: a compiled plan, and the arrays of one step.

Letters: T tokens of the step, R requests in it, M blocks per request at most, S rows whose logits are wanted.
A backend is chosen once, at load. It implements an op or refuses it with a reason, then.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pelton.checkpoint.weight import Weight
from pelton.plan import Pass, Plan

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
UInt64 = npt.NDArray[np.uint64]
Float32 = npt.NDArray[np.float32]
Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The sizes a program is compiled for. A step never exceeds them."""

    max_num_batched_tokens: int  # T
    max_num_requests: int  # R
    max_num_logits_rows: int  # S
    block_size: int  # tokens per KV block
    max_blocks_per_request: int  # M
    num_threads: int
    max_num_logprobs: int = 20
    wide_activations: str = "none"  # what takes 16-bit activations for 8-bit ones: none, likely, head, all
    kv_dtype: str = "auto"  # how keys and values are stored: bfloat16, float32, int8; auto: the backend's choice
    exact: bool = False  # keep activations in bfloat16 or float32 where the default quantizes them


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingInputs:
    """How each of the S rows is sampled. Values as in `core.sampling_params`; neutral ones switch a step off."""

    temperature_S: Float32  # below 1e-5: greedy; ties go to the lowest token id
    top_k_S: Int32  # 0: all
    top_p_S: Float32
    min_p_S: Float32
    presence_S: Float32
    frequency_S: Float32
    repetition_S: Float32
    seed_S: UInt64
    position_S: Int64  # tokens before the one to sample, prompt included: the counter of the noise
    num_logprobs_S: Int32  # -1: none; k: the chosen token and the k most likely
    history_ids: Int32  # tokens of all rows that need penalties, one row after the other
    history_start_S1: Int32  # row s owns history_ids[start[s]:start[s + 1]]
    history_num_prompt_S: Int32  # how many of them are prompt; frequency and presence count the others only
    bias_ids: Int32
    bias_values: Float32  # added to the logit; -inf bans the token
    bias_start_S1: Int32


@dataclass(frozen=True, slots=True, kw_only=True)
class StepInputs:
    """One step's arrays. Tokens of a request are neighbours, in order; requests follow one another."""

    token_ids_T: Int32
    positions_T: Int32
    query_start_R1: Int32  # request r owns tokens [start[r], start[r + 1])
    context_len_R: Int32  # tokens in the cache once this step's are written
    block_table_RM: Int32  # padded with -1
    logits_index_S: Int32  # the tokens whose logits are wanted, ascending
    sampling: SamplingInputs
    repeat: int = 1  # run the step so often, each time on the tokens just chosen; at most Executable.max_repeat


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResult:
    """What a step chose. Log-probabilities are of the raw logits, before bias, penalties and temperature."""

    token_ids_S: Int32
    logprob_S: Float32  # of the chosen token; nan where not asked
    top_ids_SL: Int32  # L = the largest num_logprobs; padded with -1
    top_logprobs_SL: Float32
    logits_SV: Float32 | None = None  # only when asked: a copy
    later_ids_KS: Int32 | None = None  # K = repeat - 1: what the further runs of a repeated step chose


class Executable(ABC):
    """A compiled plan with its weights and its KV cache.

    A step may be repeated if it computes one token of every request and chooses the next of each, and if nothing about
    its sampling changes from token to token: no penalties, no biases, no log-probabilities. Every request must hold
    blocks for all repeats. A row that chose no token (-1) has no meaning from then on.
    """

    max_repeat: int = 1

    @property
    @abstractmethod
    def kv_bytes_per_block(self) -> int:
        """Bytes of cache that one block needs over all layers."""

    @abstractmethod
    def bind_kv(self, memory: Bytes, num_blocks: int) -> None:
        """Use `memory` (num_blocks * kv_bytes_per_block bytes or more, 64-byte aligned) as the cache. Once, first."""

    @abstractmethod
    def copy_block(self, source: int, target: int) -> None:
        """Copy what one block of the cache holds, in all layers, to another. Not during a run."""

    @abstractmethod
    def run(self, inputs: StepInputs, *, want_logits: bool = False) -> StepResult:
        """Compute one step and sample. Blocks until done; releases the GIL. Not for two threads at once."""

    @abstractmethod
    def explain(self) -> list[tuple[str, str, str]]:
        """For `pelton doctor`: (op, kernel chosen, why) in plan order, without repeats."""

    def start_profile(self) -> None:  # noqa: B027 - a backend may have none
        """From now on, take the time of every op."""

    def profile(self) -> dict[str, float]:
        """Seconds by kind of op since start_profile(), on one thread; waiting for the others is `barrier`."""
        return {}


class Backend(ABC):
    """Turns plans into executables."""

    name: str
    passes: tuple[Pass, ...] = ()  # rewrites that a plan goes through, in order, before it is compiled

    @abstractmethod
    def compile(self, plan: Plan, weights: Mapping[str, Weight], limits: Limits) -> Executable:
        """Lower `plan`. Raises BackendError, naming the op and the reason, if this machine cannot run it."""
