"""Attention is its formula, token by token and head by head; and it does not look before the window."""

import numpy as np
import pytest
from tests.steps import dense_weight, program, step

from pelton.backends.reference import ReferenceBackend
from pelton.backends.reference.attention import visible
from pelton.plan import Recorder, Weights, ops

pytestmark = pytest.mark.unit

VOCAB = 37
TOKENS = np.random.default_rng(1).integers(0, VOCAB, 40).tolist()


def logits(executable, *requests, **settings):
    return executable.run(step(requests, **settings), want_logits=True).logits_SV


def test_visible_positions():
    positions, seen = np.array([2, 3], np.int32), np.arange(5, dtype=np.int32)
    assert visible(positions, seen, None)[:, 0].astype(int).tolist() == [[1, 1, 1, 0, 0], [1, 1, 1, 1, 0]]
    assert visible(positions, seen, 2)[:, 0].astype(int).tolist() == [[0, 1, 1, 0, 0], [0, 0, 1, 1, 0]]


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
    p = Recorder()
    x = ops.heads(p, ops.embedding(p, p.token_ids, Weights({"embed": (VOCAB, 4)})["embed"]), 1)
    plan = p.plan(ops.select_rows(p, ops.attention(p, x, x, x, 0, scale=1.0, window=3)))
    weights = {"embed": dense_weight("embed", np.eye(VOCAB, 4))}
    executable = program(ReferenceBackend(), plan, weights)
    logits(executable, (TOKENS[:35], 0), block_tables=[[0, 1, 2]])
    whole = logits(executable, (TOKENS[35:38], 35), block_tables=[[0, 1, 2]])
    np.testing.assert_array_equal(logits(executable, (TOKENS[35:38], 35), block_tables=[[-1, -1, 2]]), whole)
