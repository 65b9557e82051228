"""Rotary frequencies from a `Rope`: one per pair of dimensions, and the factor on cosine and sine.

The formulas are those of transformers (`ROPE_INIT_FUNCTIONS`), computed in float64. Where transformers changes the
frequencies as a text grows (dynamic and longrope), we choose once, from the longest text the engine will serve: the
stretched base or the long factors only if `max_model_len` exceeds the original length. So keys in the cache never
change their meaning, at the price of other (not worse) numbers for short texts on an engine with a long limit.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from pelton.checkpoint.model_spec import Rope, RopeScaling

Frequencies = npt.NDArray[np.float64]


def rotary_frequencies(rope: Rope, max_model_len: int) -> tuple[tuple[float, ...], float]:
    """`rotary_dim / 2` angles per position, fastest first, and the factor that multiplies cosine and sine.

    dynamic and longrope depend on `max_model_len`, see above; the other kinds do not.
    """
    exponents = np.arange(0, rope.rotary_dim, 2, dtype=np.float64) / rope.rotary_dim
    plain = rope.theta**-exponents
    scaling = rope.scaling
    if scaling is None:
        return tuple(plain.tolist()), 1.0
    factor = 1.0
    match scaling.kind:
        case "linear":
            inv_freq = plain / scaling.factor
        case "dynamic":
            inv_freq = _dynamic_base(rope, scaling, max_model_len) ** -exponents
        case "yarn":
            inv_freq, factor = _yarn(rope, scaling, plain), yarn_attention_factor(scaling)
        case "llama3":
            inv_freq = _llama3(scaling, plain)
        case "longrope":
            inv_freq, factor = _longrope(scaling, plain, max_model_len), longrope_attention_factor(scaling)
    return tuple(inv_freq.tolist()), factor


def stretched_length(max_position: int, scaling: RopeScaling | None) -> int:
    """Tokens a model serves, scaling included, from the length its configuration gives.

    Configurations of llama3 and longrope give the stretched length. Those of linear and dynamic give the original one,
    and so do those of yarn unless the length given is already larger.
    """
    if scaling is None or scaling.kind in ("llama3", "longrope"):
        return max_position
    if scaling.kind == "yarn":
        return max(max_position, int(scaling.original_max_position * scaling.factor))
    return int(max_position * scaling.factor)


def _dynamic_base(rope: Rope, scaling: RopeScaling, max_model_len: int) -> float:
    original = scaling.original_max_position
    length = max(max_model_len, original)
    stretch = scaling.factor * length / original - (scaling.factor - 1.0)
    return float(rope.theta * stretch ** (rope.rotary_dim / (rope.rotary_dim - 2)))


def _yarn(rope: Rope, scaling: RopeScaling, plain: Frequencies) -> Frequencies:
    """Fast dimensions keep their frequency, slow ones are interpolated, a linear ramp between (arXiv:2309.00071)."""
    dim = rope.rotary_dim

    def dimension_that_turns(rotations: float) -> float:
        positions = scaling.original_max_position / (rotations * 2.0 * math.pi)
        return dim * math.log(positions) / (2.0 * math.log(rope.theta))

    low, high = dimension_that_turns(scaling.beta_fast), dimension_that_turns(scaling.beta_slow)
    if scaling.truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, dim - 1)
    if low == high:
        high += 0.001  # as transformers does: no division by zero
    ramp = np.clip((np.arange(dim // 2, dtype=np.float64) - low) / (high - low), 0.0, 1.0)
    return plain / scaling.factor * ramp + plain * (1.0 - ramp)


def yarn_attention_factor(scaling: RopeScaling) -> float:
    """The factor given, or the paper's 0.1 ln(factor) + 1 with the `mscale` of DeepSeek where both are given."""
    if scaling.attention_factor is not None:
        return scaling.attention_factor

    def magnitude(mscale: float) -> float:
        return 1.0 if scaling.factor <= 1.0 else 0.1 * mscale * math.log(scaling.factor) + 1.0

    if scaling.mscale and scaling.mscale_all_dim:
        return magnitude(scaling.mscale) / magnitude(scaling.mscale_all_dim)
    return magnitude(1.0)


def _llama3(scaling: RopeScaling, plain: Frequencies) -> Frequencies:
    """Waves longer than the context are slowed down by `factor`, short ones kept, a smooth mix between."""
    turns = scaling.original_max_position * plain / (2.0 * math.pi)  # per original context
    low, high = scaling.low_freq_factor, scaling.high_freq_factor
    smooth = np.clip((turns - low) / (high - low), 0.0, 1.0)
    return plain / scaling.factor * (1.0 - smooth) + plain * smooth


def _longrope(scaling: RopeScaling, plain: Frequencies, max_model_len: int) -> Frequencies:
    is_long = max_model_len > scaling.original_max_position
    return plain / np.array(scaling.long_factors if is_long else scaling.short_factors, dtype=np.float64)


def longrope_attention_factor(scaling: RopeScaling) -> float:
    """The factor given, or sqrt(1 + ln(factor) / ln(original length)) (arXiv:2402.13753)."""
    if scaling.attention_factor is not None:
        return scaling.attention_factor
    if scaling.factor <= 1.0:
        return 1.0
    return math.sqrt(1.0 + math.log(scaling.factor) / math.log(scaling.original_max_position))
