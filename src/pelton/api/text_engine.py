"""One request from text to text: check, tokenize, run on the engine, decode; for the server and for programs alike.

Invariant: `generate` ends every answer with exactly one finish_reason or raises, and whenever its iterator closes, for
whatever reason, no engine request of it lives on. `n` answers of `p` prompts are n * p engine requests.
Belongs to one event loop. Long texts are tokenized on a few threads, so that the loop never waits for them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from typing import Final, TypeVar, final

import msgspec

from pelton.api.merge import merge
from pelton.api.output import TextDelta
from pelton.api.output_text import OutputText
from pelton.api.parts import EngineParts
from pelton.api.prompt import Prompt
from pelton.core.outputs import PrefixInfo, RequestOutput
from pelton.core.sampling_params import SamplingParams
from pelton.core.step import NewRequest, RequestId
from pelton.engine.limits import SchedulerLimits, check_request
from pelton.errors import (
    CapacityError,
    DeadlineExceeded,
    EngineError,
    InternalError,
    RateLimited,
    RequestError,
    TooLong,
)

LARGE_CHARACTERS = 1 << 18  # texts below are tokenized in less than 0.2 s
INLINE_CHARACTERS = 4096  # texts up to this are tokenized on the loop: about 1 ms, less than two thread switches cost
NUM_TOKENIZE_THREADS = 2
NUM_TEMPLATE_THREADS = 2  # they mostly wait for the template processes, of which there are as many
# What the engine may say of a request in the words of a class; anything else is its own fault.
TOLD_TO_CLIENTS: Final[dict[str, type[EngineError]]] = {
    error.__name__: error for error in (CapacityError, RateLimited, DeadlineExceeded, RequestError, TooLong)
}
_MASK_64 = 2**64 - 1

T = TypeVar("T")


@final
class TextEngine:
    """See the module. Does not own the engine: whoever made the parts closes them."""

    def __init__(self, parts: EngineParts, *, clock: Callable[[], float] = time.monotonic) -> None:
        facts = parts.facts
        self.parts = parts
        self._clock = clock
        self._default_seed = parts.config.model.seed
        self._heeds_priority = parts.config.scheduler.scheduling_policy == "priority"
        self._num_pool_tokens = facts.block_size * facts.num_blocks
        self._limits = SchedulerLimits(
            max_num_batched_tokens=facts.max_num_batched_tokens,
            max_prefill_chunk=facts.max_prefill_chunk,
            max_num_requests=facts.max_num_requests,
            max_model_len=facts.max_model_len,
            vocab_size=facts.vocab_size,
        )
        self._threads = ThreadPoolExecutor(NUM_TOKENIZE_THREADS, thread_name_prefix="tokenize")
        self._template_threads = ThreadPoolExecutor(NUM_TEMPLATE_THREADS, thread_name_prefix="template")

    @property
    def max_model_len(self) -> int:
        """Tokens of prompt and output together that a request may have."""
        return self._limits.max_model_len

    def close(self) -> None:
        """End the threads."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._template_threads.shutdown(wait=False, cancel_futures=True)

    async def run_off_loop(self, size: int, work: Callable[[], T]) -> T:
        """`work()`, on a thread if `size` characters or tokens make it slow. Cancelling does not stop the thread."""
        if size <= INLINE_CHARACTERS:
            return work()
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    async def run_on_template_thread(self, work: Callable[[], T]) -> T:
        """`work()` on one of the threads that wait for chat templates."""
        return await asyncio.get_running_loop().run_in_executor(self._template_threads, work)

    async def tokenize(self, text: str, *, add_special_tokens: bool = True) -> tuple[int, ...]:
        """The token ids of `text`. Text that spells a special token becomes that token."""
        tokenizer = self.parts.tokenizer
        ids = await self.run_off_loop(
            len(text), lambda: tokenizer.encode(text, add_special_tokens=add_special_tokens, parse_special=True)
        )
        return tuple(ids)

    async def detokenize(self, token_ids: Sequence[int], *, skip_special_tokens: bool = False) -> str:
        """The text of `token_ids`. Raises RequestError for an id that does not exist."""
        tokenizer = self.parts.tokenizer
        return await self.run_off_loop(
            len(token_ids), lambda: tokenizer.decode(token_ids, skip_special_tokens=skip_special_tokens)
        )

    async def resolve_prompts(
        self, prompts: Sequence[Prompt], *, add_special_tokens: bool = True
    ) -> list[tuple[int, ...]]:
        """The token ids of prompts in either form. Many short texts are as much work as a long one."""
        encode = self.parts.tokenizer.encode

        def resolve(prompt: Prompt) -> tuple[int, ...]:
            if prompt.text is None:
                return prompt.token_ids or ()
            return tuple(encode(prompt.text, add_special_tokens=add_special_tokens, parse_special=True))

        for prompt in prompts:
            self.check_size(prompt.text or "")
        size = sum(len(prompt.text or "") for prompt in prompts)
        return await self.run_off_loop(size, lambda: [resolve(prompt) for prompt in prompts])

    def check_size(self, text: str) -> None:
        """Raise TooLong if `text` has too many tokens whatever they are, without looking at any."""
        if len(text) <= LARGE_CHARACTERS:
            return
        least = len(text) // self.parts.tokenizer.longest_token
        if least > self._limits.max_model_len:
            raise TooLong(
                f"prompt: {len(text)} characters are at least {least} tokens, and max_model_len="
                f"{self._limits.max_model_len} must hold it. Shorten the prompt.",
                param="prompt",
                code="context_length_exceeded",
            )

    def check(self, prompt_token_ids: tuple[int, ...], sampling: SamplingParams) -> None:
        """Raise RequestError unless the engine can run this request to its last token."""
        request = NewRequest(request_id=RequestId(""), prompt_token_ids=prompt_token_ids, sampling=sampling)
        check_request(request, self._limits, self._num_pool_tokens)
        most = min(self._limits.max_model_len, self._num_pool_tokens)
        if sampling.max_tokens is not None and len(prompt_token_ids) + sampling.max_tokens > most:
            raise TooLong(
                f"max_tokens: {len(prompt_token_ids)} prompt tokens and max_tokens={sampling.max_tokens} are more than "
                f"the {most} tokens that a request may have. Lower max_tokens to {most - len(prompt_token_ids)}, "
                "leave it out, or shorten the prompt.",
                param="max_tokens",
                code="context_length_exceeded",
            )

    def engine_request_ids(self, request_id: str, num_answers: int) -> list[RequestId]:
        """The ids under which the engine knows the answers of a request, by index."""
        if num_answers == 1:
            return [RequestId(request_id)]
        return [RequestId(f"{request_id}-{index}") for index in range(num_answers)]

    async def generate(
        self,
        prompts: Sequence[tuple[int, ...]],
        sampling: SamplingParams,
        *,
        request_id: str,
        priority: int = 0,
        cache_salt: str = "",
        explain_cache: bool = False,
        tenant: str = "",
        deadline_s: float = 0.0,
    ) -> AsyncGenerator[TextDelta]:
        """Yield the deltas of all answers as they come. Checks everything before the engine hears of anything.

        A smaller `priority` runs first if `scheduling_policy` is "priority"; otherwise it is without effect. Computed
        prefixes are shared only among requests with the same `cache_salt`; with `explain_cache` deltas say why no more
        of the prompt was shared. What has not ended by `deadline_s`, on the clock of time.monotonic, raises
        DeadlineExceeded.
        """
        for prompt_token_ids in prompts:
            self.check(prompt_token_ids, sampling)
        problem = self.parts.client.refusal()
        if problem is not None:
            raise CapacityError(f"The engine takes no requests: {problem}", retry_after_s=5.0)
        arrival_s = self._clock()
        answers = [
            self._answer(
                NewRequest(
                    request_id=engine_request_id,
                    prompt_token_ids=prompts[index // sampling.n],
                    sampling=self._one_sample(sampling, index % sampling.n),
                    eos_token_ids=self.parts.eos_token_ids,
                    priority=priority if self._heeds_priority else 0,
                    arrival_s=arrival_s,
                    cache_salt=cache_salt,
                    explain_cache=explain_cache,
                    tenant=tenant,
                    deadline_s=deadline_s,
                ),
                index,
            )
            for index, engine_request_id in enumerate(self.engine_request_ids(request_id, len(prompts) * sampling.n))
        ]
        async with aclosing(merge(answers)) as deltas:
            async for delta in deltas:
                yield delta

    async def keep_prefix(
        self,
        name: str,
        token_ids: tuple[int, ...],
        *,
        request_id: str,
        tenant: str = "",
        cache_salt: str = "",
        ttl_s: float | None = None,
        on_delta: Callable[[TextDelta], None] = lambda _delta: None,
    ) -> PrefixInfo:
        """Keep a prefix in the cache under `name`, and compute what is not there yet. Returns what is kept then.

        `on_delta` hears what it took, as of a request for one token. Raises RequestError, RateLimited or CapacityError
        if the engine does not take the name, and what `generate` raises if computing fails: then the name holds, and
        takes the blocks of the next request that computes them.
        """
        sampling = SamplingParams(max_tokens=1, temperature=0.0)
        self.check(token_ids, sampling)
        client = self.parts.client
        info = await client.pin_prefix(name, tenant, cache_salt, token_ids, ttl_s)
        if info.num_cached_tokens == info.num_tokens:
            on_delta(TextDelta(index=0, finish_reason="length", num_cached_tokens=info.num_tokens))
            return info
        request = NewRequest(
            request_id=RequestId(request_id),
            prompt_token_ids=token_ids,
            sampling=sampling,
            arrival_s=self._clock(),
            tenant=tenant,
            cache_salt=cache_salt,
        )
        async with aclosing(self._answer(request, 0)) as deltas:
            async for delta in deltas:
                on_delta(delta)
        return next((info for info in await client.list_prefixes(tenant) if info.name == name), info)

    async def _answer(self, request: NewRequest, index: int) -> AsyncGenerator[TextDelta]:
        text = OutputText(self.parts.tokenizer, request.sampling, index=index)
        async with aclosing(self.parts.client.generate(request)) as outputs:
            async for output in outputs:
                if output.finish_reason == "error":
                    raise self._failure(output)
                yield text.push(output)
                if text.is_finished:
                    return  # closing `outputs` aborts what the engine still computes after a stop string
        if not text.is_finished:
            raise InternalError(
                f"Request {request.request_id}: the engine ended its outputs without a finish reason.",
                request_id=request.request_id,
            )

    def _failure(self, output: RequestOutput) -> EngineError:
        request_id, why = output.request_id, output.error or "the engine gave no reason"
        if output.error_class in TOLD_TO_CLIENTS:
            return TOLD_TO_CLIENTS[output.error_class](why)
        is_own_fault = output.error_class == InternalError.__name__
        if not is_own_fault and self.parts.client.health_problem() is not None:
            return CapacityError(f"The engine failed during the request: {why}", retry_after_s=5.0)
        return InternalError(f"Request {request_id} failed in the engine: {why}", request_id=request_id)

    def _one_sample(self, sampling: SamplingParams, sample_index: int) -> SamplingParams:
        seed = self._default_seed if sampling.seed is None else sampling.seed
        return msgspec.structs.replace(sampling, n=1, seed=derive_seed(seed, sample_index))


def derive_seed(seed: int, sample_index: int) -> int:
    """The seed of sample number `sample_index`: `seed` itself for the first, then far from it and from each other.

    One step of SplitMix64 (Steele et al. 2014), so that seeds 1, 2, 3 with n=2 share no sample.

    >>> derive_seed(7, 0)
    7
    """
    if sample_index == 0:
        return seed
    z = (seed + sample_index * 0x9E3779B97F4A7C15) & _MASK_64
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK_64
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK_64
    return z ^ (z >> 31)
