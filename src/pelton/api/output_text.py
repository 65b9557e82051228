"""Tokens of one answer become text: incremental decoding, stop strings, log-probabilities.

Invariant: joined deltas are the whole answer, whatever the cuts; text that may become a stop string is held back, and
tokens after a stop string count for nothing. Runs on the event loop, one object per engine request; O(1) per token.
"""

from __future__ import annotations

from typing import final

from pelton.api.output import TextDelta, TokenLogprob
from pelton.core.outputs import FinishReason, RequestOutput
from pelton.core.sampling_params import SamplingParams
from pelton.core.step import TokenLogprobs
from pelton.tokenization.detokenizer import Detokenizer
from pelton.tokenization.stop_strings import StopStrings
from pelton.tokenization.tokenizer import Tokenizer

LEAST_LOGPROB = -9999.0  # stands for minus infinity, which JSON cannot hold; the value is vLLM's


@final
class OutputText:
    """The text side of one engine request."""

    def __init__(self, tokenizer: Tokenizer, sampling: SamplingParams, *, index: int = 0) -> None:
        self.num_output_tokens = 0
        self.is_finished = False
        self._tokenizer = tokenizer
        self._sampling = sampling
        self._index = index
        self._detokenizer = Detokenizer(
            tokenizer, skip_special_tokens=sampling.skip_special_tokens, is_continuation=True
        )
        self._stops = StopStrings(sampling.stop, include_stop=sampling.include_stop_str_in_output)

    def push(self, output: RequestOutput) -> TextDelta:
        """The delta for `output`. If it finishes though `output` does not, a stop string was found: abort the rest."""
        pieces: list[str] = []
        stop: str | None = None
        num_used = 0
        for token_id in output.token_ids:
            num_used += 1
            self.num_output_tokens += 1
            is_stop_token = output.stop_token_id is not None and num_used == len(output.token_ids)
            text = "" if is_stop_token and self._hides_stop_token() else self._detokenizer.push(token_id)
            stop = self._pass_on(text, pieces)
            if stop is not None:
                break
        finish = "stop" if stop is not None else output.finish_reason
        if finish is not None and stop is None:
            stop = self._end(pieces)
            finish = "stop" if stop is not None else finish
        self.is_finished = finish is not None
        return TextDelta(
            index=self._index,
            text="".join(pieces),
            token_ids=output.token_ids[:num_used],
            logprobs=self._describe(output.token_ids[:num_used], output.logprobs),
            finish_reason=finish,
            stop_reason=stop if stop is not None else self._stop_token(output, finish),
            num_cached_tokens=output.num_cached_tokens,
            cache_miss=output.cache_miss,
            timings=output.timings,
        )

    def _hides_stop_token(self) -> bool:
        return not self._sampling.include_stop_str_in_output

    def _pass_on(self, text: str, pieces: list[str]) -> str | None:
        """Add to `pieces` what of `text` is safe to show; the stop string, if it is complete."""
        if not text:
            return None
        if self.num_output_tokens <= self._sampling.min_tokens:  # stop strings count only after min_tokens
            pieces.append(text)
            return None
        released = self._stops.push(text)
        pieces.append(released.text)
        return released.stop

    def _end(self, pieces: list[str]) -> str | None:
        stop = self._pass_on(self._detokenizer.finish(), pieces)
        if stop is None:
            pieces.append(self._stops.finish().text)
        return stop

    def _stop_token(self, output: RequestOutput, finish: FinishReason | None) -> int | None:
        is_asked = finish == "stop" and output.stop_token_id in self._sampling.stop_token_ids
        return output.stop_token_id if is_asked else None

    def _describe(self, token_ids: tuple[int, ...], logprobs: tuple[TokenLogprobs, ...]) -> tuple[TokenLogprob, ...]:
        if self._sampling.logprobs is None:
            return ()
        return tuple(
            self._token_logprob(id_, each) for id_, each in zip(token_ids, logprobs[: len(token_ids)], strict=True)
        )

    def _token_logprob(self, token_id: int, given: TokenLogprobs) -> TokenLogprob:
        pairs = zip(given.top_token_ids, given.top_logprobs, strict=True)
        top = tuple(self._one(id_, logprob) for id_, logprob in pairs)
        return self._one(token_id, given.chosen, top)

    def _one(self, token_id: int, logprob: float, top: tuple[TokenLogprob, ...] = ()) -> TokenLogprob:
        # A model may have more rows than the tokenizer has tokens; those have no text.
        raw = self._tokenizer.token_bytes(token_id) if token_id < self._tokenizer.vocab_size else b""
        return TokenLogprob(
            token_id=token_id,
            logprob=max(logprob, LEAST_LOGPROB),
            text=raw.decode("utf-8", "replace"),
            raw=raw,
            top=top,
        )
