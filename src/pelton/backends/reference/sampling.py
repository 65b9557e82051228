"""How a row of logits becomes a token; every backend follows this text to the letter.

Log-probabilities come from the raw logits. Then, in float32: bias (-inf bans) -> repetition -> frequency and presence
-> [greedy] -> temperature -> min_p -> top_k -> top_p -> draw. Ties always go to the lower id. Probabilities are sums of
exp(l - max) in float64, added in the order that each function names. A row is treated alone, so its token depends on
nothing but its logits, settings, history, seed and position.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from pelton.backends.executable import Float32, SamplingInputs, StepResult
from pelton.backends.reference.philox import uniform
from pelton.core.sampling_params import GREEDY_BELOW

Int64 = npt.NDArray[np.int64]
Float64 = npt.NDArray[np.float64]
NO_TOKEN = -1  # every token is banned, or the logits are not finite


def sample(logits_SV: Float32, sampling: SamplingInputs, *, want_logits: bool) -> StepResult:
    """One token per row, with its log-probabilities where asked."""
    num_rows = len(logits_SV)
    num_top = max((int(n) for n in sampling.num_logprobs_S), default=0)
    result = StepResult(
        token_ids_S=np.full(num_rows, NO_TOKEN, np.int32),
        logprob_S=np.full(num_rows, np.nan, np.float32),
        top_ids_SL=np.full((num_rows, max(num_top, 0)), -1, np.int32),
        top_logprobs_SL=np.full((num_rows, max(num_top, 0)), np.nan, np.float32),
        logits_SV=logits_SV.copy() if want_logits else None,
    )
    for row, logits_V in enumerate(logits_SV):
        if not np.isfinite(logits_V).all():
            continue
        token_id = choose(adjusted(logits_V, sampling, row), sampling, row)
        result.token_ids_S[row] = token_id
        wanted = int(sampling.num_logprobs_S[row])
        if wanted >= 0 and token_id != NO_TOKEN:
            logprobs_V = log_softmax(logits_V)
            top_L = np.argsort(-logits_V, kind="stable")[:wanted]
            result.logprob_S[row] = logprobs_V[token_id]
            result.top_ids_SL[row, : len(top_L)] = top_L
            result.top_logprobs_SL[row, : len(top_L)] = logprobs_V[top_L]
    return result


def log_softmax(logits_V: Float32) -> Float64:
    """l - max - log(sum exp(l - max)), summed in float64 in the order of ids."""
    shifted_V = logits_V.astype(np.float64) - float(logits_V.max())
    return shifted_V - math.log(np.cumsum(np.exp(shifted_V))[-1])


def adjusted(logits_V: Float32, sampling: SamplingInputs, row: int) -> Float32:
    """A copy of the row with bias and penalties, in float32."""
    logits_V = logits_V.copy()
    bias = slice(int(sampling.bias_start_S1[row]), int(sampling.bias_start_S1[row + 1]))
    np.add.at(logits_V, sampling.bias_ids[bias], sampling.bias_values[bias])
    start, stop = int(sampling.history_start_S1[row]), int(sampling.history_start_S1[row + 1])
    seen = np.unique(sampling.history_ids[start:stop])
    repetition = sampling.repetition_S[row]
    logits_V[seen] = np.where(logits_V[seen] > 0, logits_V[seen] / repetition, logits_V[seen] * repetition)
    output_start = start + int(sampling.history_num_prompt_S[row])
    written, counts = np.unique(sampling.history_ids[output_start:stop], return_counts=True)
    logits_V[written] -= sampling.frequency_S[row] * counts.astype(np.float32) + sampling.presence_S[row]
    return logits_V


def choose(logits_V: Float32, sampling: SamplingInputs, row: int) -> int:
    """The token of one adjusted row: the most likely one if greedy, else drawn from what the filters keep."""
    if logits_V.max() == -np.inf:
        return NO_TOKEN
    temperature = sampling.temperature_S[row]
    if temperature < GREEDY_BELOW:
        return int(np.argmax(logits_V))
    logits_V = logits_V / temperature
    kept = np.flatnonzero(logits_V > -np.inf)
    kept = keep_min_p(logits_V, kept, float(sampling.min_p_S[row]))
    kept = keep_top_k(logits_V, kept, int(sampling.top_k_S[row]))
    kept = keep_top_p(logits_V, kept, float(sampling.top_p_S[row]))
    return draw(logits_V, kept, uniform(int(sampling.seed_S[row]), int(sampling.position_S[row])))


def keep_min_p(logits_V: Float32, kept: Int64, min_p: float) -> Int64:
    """Ids whose logit is at least max + log(min_p), compared in float64; 0 keeps all."""
    if min_p <= 0.0:
        return kept
    return kept[logits_V[kept].astype(np.float64) >= float(logits_V.max()) + math.log(min_p)]


def keep_top_k(logits_V: Float32, kept: Int64, top_k: int) -> Int64:
    """The `top_k` ids with the largest logits, in ascending order of ids; 0 keeps all."""
    if top_k <= 0 or top_k >= len(kept):
        return kept
    return np.sort(by_logit(logits_V, kept)[:top_k])


def keep_top_p(logits_V: Float32, kept: Int64, top_p: float) -> Int64:
    """The fewest most likely ids whose probabilities reach `top_p` of all kept, ascending; 1 keeps all.

    Sums run from the most to the least likely.
    """
    if top_p >= 1.0:
        return kept
    order = by_logit(logits_V, kept)
    mass = np.cumsum(relative_probability(logits_V, order))
    return np.sort(order[: int(np.searchsorted(mass, top_p * mass[-1])) + 1])


def by_logit(logits_V: Float32, kept: Int64) -> Int64:
    """`kept`, which ascends, from the largest logit to the smallest; equal ones keep their order."""
    return kept[np.argsort(-logits_V[kept], kind="stable")]


def relative_probability(logits_V: Float32, ids: Int64) -> Float64:
    """exp(l - max) in float64."""
    return np.exp(logits_V[ids].astype(np.float64) - float(logits_V.max()))


def draw(logits_V: Float32, kept: Int64, u: float) -> int:
    """The first id, ascending, whose cumulative probability exceeds `u` of the total."""
    mass = np.cumsum(relative_probability(logits_V, kept))
    return int(kept[np.searchsorted(mass, u * mass[-1], side="right")])
