"""Mixtures of experts: who computes a token, and what comes of it."""

from __future__ import annotations

import numpy as np

from pelton.backends.reference.array import Array
from pelton.backends.reference.elementwise import gated


def route(logits_TX: Array, *, num_chosen: int, normalised: bool, factor: float) -> Array:
    """softmax(logits) where a logit is one of the largest of its row, else zero; of equal ones the first is larger."""
    e_TX = np.exp(logits_TX - logits_TX.max(axis=-1, keepdims=True))
    weights_TX = e_TX / e_TX.sum(axis=-1, keepdims=True)
    chosen_TC = np.argsort(-logits_TX, axis=-1, kind="stable")[:, :num_chosen]
    kept_TX = np.zeros_like(weights_TX)
    np.put_along_axis(kept_TX, chosen_TC, np.take_along_axis(weights_TX, chosen_TC, axis=-1), axis=-1)
    if normalised:
        kept_TX /= kept_TX.sum(axis=-1, keepdims=True)
    scaled_TX: Array = kept_TX * factor
    return scaled_TX


def experts(h_TE: Array, weights_TX: Array, gate_up_RE: Array, down_RF: Array, *, num_chosen: int, kind: str) -> Array:
    """The weighted outputs of each row's experts, added up in ascending order of experts."""
    assert (np.count_nonzero(weights_TX, axis=-1) <= num_chosen).all(), "experts: a row has more weights than it may"
    num_experts = weights_TX.shape[1]
    y_TE = np.zeros_like(h_TE)
    for expert, (gate_up, down) in enumerate(
        zip(np.split(gate_up_RE, num_experts), np.split(down_RF, num_experts), strict=True)
    ):
        (tokens,) = np.nonzero(weights_TX[:, expert])
        y_TE[tokens] += weights_TX[tokens, expert, None] * (gated(h_TE[tokens] @ gate_up.T, kind=kind) @ down.T)
    return y_TE
