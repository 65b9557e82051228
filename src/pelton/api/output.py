"""What generation gives to a program: increments for those that stream, whole answers for those that wait."""

from __future__ import annotations

from dataclasses import dataclass

from pelton.core.outputs import CacheMiss, FinishReason, Timings

NO_TIMINGS = Timings()


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenLogprob:
    """A token with its log-probability. `text` is for people; `raw` are the exact bytes, which need not be UTF-8."""

    token_id: int
    logprob: float
    text: str
    raw: bytes
    top: tuple[TokenLogprob, ...] = ()  # the most likely tokens in its place, best first


@dataclass(frozen=True, slots=True, kw_only=True)
class TextDelta:
    """What is new in one answer. The last delta of an answer has a `finish_reason`, and no other has."""

    index: int  # prompt_index * n + sample_index
    text: str = ""
    token_ids: tuple[int, ...] = ()
    logprobs: tuple[TokenLogprob, ...] = ()
    finish_reason: FinishReason | None = None
    stop_reason: str | int | None = None  # the stop string or stop token that ended it; None for end of sequence
    num_cached_tokens: int = 0
    cache_miss: CacheMiss | None = None  # if it was asked for
    timings: Timings = NO_TIMINGS


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """One answer, as far as it has come."""

    index: int
    text: str = ""
    token_ids: tuple[int, ...] = ()
    logprobs: tuple[TokenLogprob, ...] | None = None
    finish_reason: FinishReason | None = None
    stop_reason: str | int | None = None
    timings: Timings = NO_TIMINGS

    def extend(self, delta: TextDelta) -> Completion:
        """This answer with `delta` at its end."""
        logprobs = self.logprobs
        if delta.logprobs:
            logprobs = (*(logprobs or ()), *delta.logprobs)
        return Completion(
            index=self.index,
            text=self.text + delta.text,
            token_ids=self.token_ids + delta.token_ids,
            logprobs=logprobs,
            finish_reason=delta.finish_reason,
            stop_reason=delta.stop_reason,
            timings=delta.timings,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """A prompt and its answers. `text`, `token_ids`, `finish_reason` and `timings` are those of the first answer."""

    request_id: str
    prompt: str | None  # None where the prompt came as token ids
    prompt_token_ids: tuple[int, ...]
    outputs: tuple[Completion, ...]
    num_cached_tokens: int = 0

    @property
    def finished(self) -> bool:
        """Whether all answers are whole."""
        return all(completion.finish_reason is not None for completion in self.outputs)

    @property
    def text(self) -> str:
        return self.outputs[0].text

    @property
    def token_ids(self) -> tuple[int, ...]:
        return self.outputs[0].token_ids

    @property
    def finish_reason(self) -> FinishReason | None:
        return self.outputs[0].finish_reason

    @property
    def timings(self) -> Timings:
        return self.outputs[0].timings

    def extend(self, delta: TextDelta) -> Generation:
        """This generation with `delta` at the end of the answer it belongs to."""
        outputs = tuple(c.extend(delta) if c.index == delta.index else c for c in self.outputs)
        return Generation(
            request_id=self.request_id,
            prompt=self.prompt,
            prompt_token_ids=self.prompt_token_ids,
            outputs=outputs,
            num_cached_tokens=max(self.num_cached_tokens, delta.num_cached_tokens),
        )
