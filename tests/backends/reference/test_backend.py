"""Whole plans: independent of chunks, batch and block tables; and equal to plain formulas written another way."""

import numpy as np
import pytest
from tests.steps import LIMITS, dense_weight, program, step
from tests.tiny_plans import MODELS, VOCAB, tiny_plan

from pelton.backends.reference import ReferenceBackend
from pelton.backends.reference.backend import DEFINITIONS, STEP_DEFINITIONS
from pelton.errors import BackendError
from pelton.plan import Recorder, Weights, ops

pytestmark = pytest.mark.unit

TOKENS = np.random.default_rng(1).integers(0, VOCAB, 40).tolist()


def logits(executable, *requests, **settings):
    return executable.run(step(requests, **settings), want_logits=True).logits_SV


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("chunk", [1, 7, 16])
def test_chunks_do_not_matter(name, chunk):
    tiny = tiny_plan(name)
    whole = logits(program(ReferenceBackend("float64"), tiny.plan, tiny.weights), (TOKENS, 0))
    executable = program(ReferenceBackend("float64"), tiny.plan, tiny.weights)
    pieces = [logits(executable, (TOKENS[i : i + chunk], i)) for i in range(0, len(TOKENS), chunk)]
    np.testing.assert_allclose(np.concatenate(pieces), whole, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", MODELS)
def test_neighbours_and_blocks_do_not_matter(name):
    tiny = tiny_plan(name)
    alone = [logits(program(ReferenceBackend("float64"), tiny.plan, tiny.weights), (TOKENS[:n], 0)) for n in (20, 9, 1)]
    executable = program(ReferenceBackend("float64"), tiny.plan, tiny.weights)
    requests = [(TOKENS[:20], 0), (TOKENS[:9], 0), (TOKENS[:1], 0)]
    together = logits(executable, *requests, block_tables=[[3, 60], [7], [0]])
    np.testing.assert_allclose(together, np.concatenate(alone), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", MODELS)
def test_float32_is_close_to_float64(name):
    tiny = tiny_plan(name)
    narrow, wide = (
        logits(program(ReferenceBackend(d), tiny.plan, tiny.weights), (TOKENS, 0)) for d in ("float32", "float64")
    )
    np.testing.assert_allclose(narrow, wide, rtol=1e-3, atol=1e-4)
    assert (narrow != wide).any()


@pytest.mark.parametrize("name", MODELS)
def test_only_the_wanted_rows_have_logits(name):
    tiny = tiny_plan(name)
    executable = program(ReferenceBackend(), tiny.plan, tiny.weights)
    every = logits(executable, (TOKENS[:12], 0))
    some = logits(executable, (TOKENS[:12], 0), logits_index=[2, 11])
    np.testing.assert_allclose(some, every[[2, 11]], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("window", "softcap"), [(None, None), (3, None), (1, None), (None, 2.0), (50, 2.0)])
def test_attention_is_its_formula(window, softcap):
    """Token by token, head by head, with queries, keys and values that are rows of tables."""
    num_tokens, heads, kv_heads, dim = 21, 6, 2, 5
    rng = np.random.default_rng(3)
    q, k, v = (rng.normal(size=(num_tokens, n, dim)).astype(np.float32) for n in (heads, kv_heads, kv_heads))
    arrays = {"q": q.reshape(num_tokens, -1), "k": k.reshape(num_tokens, -1), "v": v.reshape(num_tokens, -1)}
    p = Recorder()
    w = Weights({name: array.shape for name, array in arrays.items()})
    read = {
        name: ops.heads(p, ops.embedding(p, p.token_ids, w[name]), heads if name == "q" else kv_heads)
        for name in arrays
    }
    y = ops.attention(p, read["q"], read["k"], read["v"], 5, scale=0.7, window=window, softcap=softcap)
    plan = p.plan(ops.select_rows(p, y))
    weights = {name: dense_weight(name, array) for name, array in arrays.items()}
    given = logits(program(ReferenceBackend("float64"), plan, weights), (range(num_tokens), 0))

    for t in range(num_tokens):
        first = 0 if window is None else max(0, t - window + 1)
        for h in range(heads):
            scores = np.array([0.7 * float(q[t, h] @ k[j, h // 3]) for j in range(first, t + 1)])
            scores = scores if softcap is None else softcap * np.tanh(scores / softcap)
            weight = np.exp(scores) / np.exp(scores).sum()
            expected = sum(weight[j - first] * v[j, h // 3] for j in range(first, t + 1))
            np.testing.assert_allclose(given[t, h * dim : (h + 1) * dim], expected, rtol=1e-5, atol=1e-6)


def test_blocks_before_the_window_may_be_gone():
    tiny = tiny_plan("gemma_like")
    windowed = [node for node in tiny.plan.nodes if node.op == "attention" and node.attribute("window") == 3]
    assert windowed, "the model must have a layer with a window"
    p = Recorder()
    x = ops.heads(p, ops.embedding(p, p.token_ids, Weights({"embed": (VOCAB, 4)})["embed"]), 1)
    plan = p.plan(ops.select_rows(p, ops.attention(p, x, x, x, 0, scale=1.0, window=3)))
    weights = {"embed": dense_weight("embed", np.eye(VOCAB, 4))}
    executable = program(ReferenceBackend(), plan, weights)
    logits(executable, (TOKENS[:35], 0), block_tables=[[0, 1, 2]])
    whole = logits(executable, (TOKENS[35:38], 35), block_tables=[[0, 1, 2]])
    np.testing.assert_array_equal(logits(executable, (TOKENS[35:38], 35), block_tables=[[-1, -1, 2]]), whole)


def test_cache_layout_covers_every_layer():
    tiny = tiny_plan("llama_like")
    narrow = ReferenceBackend("float32").compile(tiny.plan, tiny.weights, LIMITS)
    wide = ReferenceBackend("float64").compile(tiny.plan, tiny.weights, LIMITS)
    assert narrow.kv_bytes_per_block == 2 * 16 * 2 * (6 + 6) * 4  # layers, slots, kv heads, dims, bytes
    assert wide.kv_bytes_per_block == 2 * narrow.kv_bytes_per_block


def test_refusals_name_the_op_the_weight_and_the_layer():
    tiny = tiny_plan("llama_like")
    with pytest.raises(BackendError, match=r"'layers\.0\.qkv'"):
        ReferenceBackend().compile(tiny.plan, {k: v for k, v in tiny.weights.items() if "0.qkv" not in k}, LIMITS)
    with pytest.raises(BackendError, match=r"'norm' has shape \(3,\)"):
        ReferenceBackend().compile(tiny.plan, tiny.weights | {"norm": dense_weight("norm", np.ones(3))}, LIMITS)
    p = Recorder()
    p.record("rms_morn", (p.token_ids,), (), (p.value(("T",)),))
    with pytest.raises(BackendError, match="Did you mean 'rms_norm'"):
        ReferenceBackend().compile(p.plan(p.token_ids), {}, LIMITS)
    p = Recorder()
    x = ops.heads(p, ops.embedding(p, p.token_ids, Weights({"embed": (4, 4)})["embed"]), 1)
    for _ in range(2):
        y = ops.attention(p, x, x, x, 0, scale=1.0)
    with pytest.raises(BackendError, match="same layer"):
        ReferenceBackend().compile(p.plan(y), {"embed": dense_weight("embed", np.eye(4))}, LIMITS)


def test_the_tiny_models_use_every_op():
    used = {node.op for name in MODELS for node in tiny_plan(name).plan.nodes}
    assert {op for op in (*DEFINITIONS, *STEP_DEFINITIONS) if not op.startswith("linear_")} == used


def test_explain_names_each_op_once():
    tiny = tiny_plan("gpt2_like")
    lines = ReferenceBackend("float64").compile(tiny.plan, tiny.weights, LIMITS).explain()
    assert [op for op, _, _ in lines][:3] == ["embedding", "add", "layer_norm"]
    assert len(lines) == len({op for op, _, _ in lines})
    assert {kernel for _, kernel, _ in lines} == {"numpy float64"}


def test_a_step_that_contradicts_itself_is_caught():
    tiny = tiny_plan("llama_like")
    executable = program(ReferenceBackend(), tiny.plan, tiny.weights)
    with pytest.raises(AssertionError, match="lacks a block"):
        logits(executable, ([1], 20), block_tables=[[-1, 3]])
    with pytest.raises(AssertionError, match="not below 64"):
        logits(executable, ([1], 0), block_tables=[[64]])
