"""The balance of keys follows from the weights, and both backends round with it."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from tests.steps import LIMITS, dense_weight, program, step

from pelton.backends.cpu import CpuBackend
from pelton.backends.key_balance import LARGEST_BALANCE, compute_key_balance
from pelton.backends.reference import ReferenceBackend
from pelton.checkpoint.weight import Weight
from pelton.plan import Node, Plan, Recorder, WeightRef, ops

VOCAB, HIDDEN, HEADS, KV_HEADS, DIM = 20, 24, 4, 2, 8
Q, KV = HEADS * DIM, KV_HEADS * DIM
INV_FREQ = (1.0, 0.3, 0.1)  # six of eight dimensions turn
Arrays = dict[str, np.ndarray]


def make_arrays(seed: int = 0) -> Arrays:
    rng = np.random.default_rng(seed)
    shapes = {"embed": (VOCAB, HIDDEN), "norm": (HIDDEN,), "qkv": (Q + 2 * KV, HIDDEN), "bias": (Q + 2 * KV,)}
    shapes["k_norm"] = (DIM,)
    return {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


def make_plan(arrays: Arrays, *, has_head_norm: bool) -> Plan:
    p = Recorder()
    refs = {name: WeightRef(name, array.shape) for name, array in arrays.items()}
    x = ops.rms_norm(p, ops.embedding(p, p.token_ids, refs["embed"]), refs["norm"], 1e-6)
    q, k, v = ops.split(p, ops.linear(p, x, refs["qkv"], refs["bias"]), (Q, KV, KV))
    q_THD, k_TKD = ops.heads(p, q, HEADS), ops.heads(p, k, KV_HEADS)
    if has_head_norm:
        k_TKD = ops.rms_norm(p, k_TKD, refs["k_norm"], 1e-6)
    q_THD, k_TKD = ops.rotary(p, q_THD, INV_FREQ), ops.rotary(p, k_TKD, INV_FREQ)
    y = ops.attention(p, q_THD, k_TKD, ops.heads(p, v, KV_HEADS), 0, scale=0.3)
    return p.plan(ops.select_rows(p, y))


def attention_of(plan: Plan) -> Node:
    return next(node for node in plan.nodes if node.op == "attention")


def balance_of(arrays: Arrays, plan: Plan) -> np.ndarray:
    weights = {name: dense_weight(name, array) for name, array in arrays.items()}
    balance_KD = compute_key_balance(plan, attention_of(plan), lambda ref: weights[ref.name])
    assert balance_KD is not None
    return balance_KD


def expected_balance(power_KD: np.ndarray) -> np.ndarray:
    """The square root of the magnitude, turned dimensions alike, centred in each head."""
    for i in range(len(INV_FREQ)):
        power_KD[:, [i, i + 3]] = power_KD[:, [i, i + 3]].mean(axis=1, keepdims=True)
    root = power_KD**0.25
    return root / np.exp(np.log(root).mean(axis=1, keepdims=True))


@pytest.mark.unit
def test_balance_of_a_product_with_a_bias() -> None:
    arrays = make_arrays()
    rows, bias = arrays["qkv"][Q : Q + KV].astype(np.float64), arrays["bias"][Q : Q + KV]
    power = np.square(rows * arrays["norm"]).sum(axis=1) + np.square(bias)
    balance_KD = balance_of(arrays, make_plan(arrays, has_head_norm=False))
    np.testing.assert_allclose(balance_KD, expected_balance(power.reshape(KV_HEADS, DIM)), rtol=1e-5)


@pytest.mark.unit
def test_balance_of_head_norms_is_that_of_their_weights() -> None:
    arrays = make_arrays()
    power_KD = np.tile(np.square(arrays["k_norm"].astype(np.float64)), (KV_HEADS, 1))
    balance_KD = balance_of(arrays, make_plan(arrays, has_head_norm=True))
    np.testing.assert_allclose(balance_KD, expected_balance(power_KD), rtol=1e-5)


@pytest.mark.unit
def test_parts_of_a_weight_are_found_and_dead_dimensions_do_no_harm() -> None:
    arrays = make_arrays()
    arrays["qkv"][Q + 3] = arrays["qkv"][Q] = 0
    arrays["bias"][Q + 3] = arrays["bias"][Q] = 0
    plan = make_plan(arrays, has_head_norm=False)
    balance_KD = balance_of(arrays, plan)
    assert balance_KD.min() == np.float32(1 / LARGEST_BALANCE)
    cuts = (0, Q, Q + 5, Q + KV, Q + 2 * KV)
    weights = {name: dense_weight(name, array) for name, array in arrays.items()}
    for name in ("qkv", "bias"):
        pieces = [arrays[name][first:end] for first, end in pairwise(cuts)]
        weights[name] = Weight(name, tuple(dense_weight(name, piece).parts[0] for piece in pieces))
    again = compute_key_balance(plan, attention_of(plan), lambda ref: weights[ref.name])
    np.testing.assert_array_equal(again, balance_KD)


@pytest.mark.unit
def test_keys_that_no_weight_makes_have_no_balance() -> None:
    p = Recorder()
    x = ops.heads(p, ops.embedding(p, p.token_ids, WeightRef("embed", (VOCAB, DIM))), 1)
    plan = p.plan(ops.select_rows(p, ops.attention(p, x, x, x, 0, scale=1.0)))
    assert compute_key_balance(plan, attention_of(plan), lambda ref: dense_weight(ref.name, np.ones(ref.shape))) is None


@pytest.mark.cpu
def test_both_backends_round_with_it() -> None:
    """Keys with one huge dimension: int8 stays near the exact result, and the native kernels near the definition."""
    arrays = make_arrays(1)
    arrays["bias"][Q + 1], arrays["bias"][Q + DIM + 2] = 300.0, -200.0
    plan = make_plan(arrays, has_head_norm=False)
    weights = {name: dense_weight(name, array) for name, array in arrays.items()}
    inputs = step([(np.random.default_rng(2).integers(0, VOCAB, 50).tolist(), 0)])

    def rows(backend: CpuBackend | ReferenceBackend, kv_dtype: str) -> np.ndarray:
        limits = replace(LIMITS, kv_dtype=kv_dtype, exact=True)
        return program(backend, plan, weights, limits).run(inputs, want_logits=True).logits_SV

    exact, definition = rows(ReferenceBackend(), "auto"), rows(ReferenceBackend(), "int8")
    native = rows(CpuBackend(), "int8")
    assert 0 < np.abs(definition - exact).mean() < 0.05 * np.abs(exact).mean()
    assert np.abs(native - definition).mean() < np.abs(definition - exact).mean()
