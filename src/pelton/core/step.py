"""What crosses between the planes: one frozen value per direction and step.

The scheduler (control plane) says which tokens of which requests to compute and where their keys and values
live; the model runner (execution plane) answers with the tokens it chose. No array and no model name is in here,
so schedules can be recorded, compared and replayed without a device.
"""

from __future__ import annotations

from typing import NewType

import msgspec

from pelton.core.sampling_params import SamplingParams

RequestId = NewType("RequestId", str)
BlockId = NewType("BlockId", int)


class NewRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request as the engine knows it. `output_token_ids` is not empty when it goes on after a restart."""

    request_id: RequestId
    prompt_token_ids: tuple[int, ...]
    sampling: SamplingParams
    eos_token_ids: tuple[int, ...] = ()
    output_token_ids: tuple[int, ...] = ()
    priority: int = 0
    arrival_s: float = 0.0
    deadline_s: float = 0.0  # on the clock of arrival_s; 0: none
    tenant: str = ""  # whose share of the machine it uses
    cache_salt: str = ""  # only requests of one tenant with equal salts share computed prefixes
    explain_cache: bool = False  # say why the prompt was not found in the prefix cache


class ScheduledRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request's part of a step."""

    request_id: RequestId
    num_computed_tokens: int  # tokens whose keys and values are already in the cache
    num_scheduled_tokens: int  # tokens to compute in this step
    block_ids: tuple[BlockId, ...]  # the request's whole block table, oldest first


class BlockCopy(msgspec.Struct, frozen=True):
    """Copy what one block of the cache holds, in all layers, to another before anything of the step is computed."""

    source: BlockId
    target: BlockId


class SchedulerOutput(msgspec.Struct, frozen=True, kw_only=True):
    """A step to run. First requests in `finished` (ended or preempted) lose their row, then `added` ones get one."""

    step: int
    added: tuple[NewRequest, ...] = ()
    finished: tuple[RequestId, ...] = ()
    copies: tuple[BlockCopy, ...] = ()
    scheduled: tuple[ScheduledRequest, ...] = ()
    repeat: int = 1  # run the step so often, each time on the tokens just chosen: all of them are requests' last


class TokenLogprobs(msgspec.Struct, frozen=True):
    """Log-probabilities of the chosen token and of the most likely ones, under the unmodified model."""

    chosen: float
    top_token_ids: tuple[int, ...] = ()
    top_logprobs: tuple[float, ...] = ()


class SampledToken(msgspec.Struct, frozen=True):
    """The token chosen for a request whose last known token was computed in this step."""

    request_id: RequestId
    token_id: int
    logprobs: TokenLogprobs | None = None


class ModelRunnerOutput(msgspec.Struct, frozen=True, kw_only=True):
    """What a step produced, in order. Requests still in the middle of their prompt produce nothing; a step that is
    repeated produces a token of each request every time, also behind one that ends it."""

    step: int
    sampled: tuple[SampledToken, ...] = ()
