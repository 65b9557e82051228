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


def test_a_step_in_the_middle_of_a_prompt_has_no_rows():
    tiny = tiny_plan("gemma_like")
    executable = program(ReferenceBackend(), tiny.plan, tiny.weights)
    whole = logits(program(ReferenceBackend(), tiny.plan, tiny.weights), (TOKENS[:9], 0))
    result = executable.run(step([(TOKENS[:8], 0)], logits_index=[]), want_logits=True)
    assert result.token_ids_S.shape == (0,)
    assert result.logits_SV.shape == (0, VOCAB)
    np.testing.assert_allclose(logits(executable, (TOKENS[8:9], 8)), whole[8:], rtol=1e-4, atol=1e-5)


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
