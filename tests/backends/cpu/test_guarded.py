"""No kernel reads or writes past its buffers: each stands before and behind a page that kills, in odd shapes.

A kernel that does ends the whole test process with a segmentation fault, whose traceback names the test. Results are
compared with those from ordinary memory: where a buffer lies changes no bit.
"""

import subprocess
import sys
from dataclasses import replace
from functools import reduce

import numpy as np
import pytest
from tests.backends.cpu.guarded import (
    EDGES,
    PAGE,
    Edge,
    forbid,
    guarded,
    guarded_arenas,
    guarded_empty,
    guarded_programs,
    guarded_step,
)
from tests.backends.cpu.test_gated_linear import model as gated_model
from tests.backends.cpu.test_linear import DENSE, SCHEMES, activations, random_rows
from tests.conformance.backends import CANDIDATES, Candidate
from tests.conformance.one_op import LIMITS, OneOp, one_op
from tests.conformance.scheme import SCHEMES as STORED
from tests.conformance.scheme import fits
from tests.steps import program, sampling_inputs, step
from tests.tiny_plans import MODELS, tiny_plan

from pelton.backends.cpu import CpuBackend, _native
from pelton.backends.executable import Executable, Limits, StepInputs
from pelton.checkpoint.scheme import get_scheme
from pelton.checkpoint.weight import Tensor, Weight
from pelton.errors import BackendError
from pelton.plan import Plan, Recorder, WeightRef, ops
from pelton.plan.op_spec import OpSpec
from pelton.plan.registry import OPS

pytestmark = pytest.mark.cpu

NATIVE = [candidate for candidate in CANDIDATES if candidate.isa is not None]
NUM_ROWS = (1, 2, 3, 4, 5, 7, 8, 9, 12, 13, 15, 16, 17, 24, 25, 33, 64, 127, 128, 129, 130)
NUM_CHANNELS = (1, 63, 64, 65, 100, 130)


def test_the_guard_kills_who_goes_too_far() -> None:
    """One byte behind the last and one before the first, read by a child."""
    code = (
        "import ctypes, sys; from tests.backends.cpu.guarded import guarded_empty;"
        "a = guarded_empty((100,), 'u1', sys.argv[1]); print(a.sum());"
        "print(ctypes.string_at(a.ctypes.data + int(sys.argv[2]), 1))"
    )
    for edge, offset in (("end", "100"), ("begin", "-1")):
        done = subprocess.run([sys.executable, "-c", code, edge, offset], capture_output=True, timeout=60, check=False)
        assert done.stdout.strip() == b"0"
        assert done.returncode != 0  # a signal, or the report of AddressSanitizer


def row_sizes(scheme: str) -> tuple[int, ...]:
    if scheme in DENSE:
        return (1, 31, 33, 75, 129, 160)
    return tuple(count * get_scheme(scheme).block_size for count in (1, 2, 3, 5))


@pytest.mark.parametrize("edge", EDGES)
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("candidate", NATIVE, ids=str)
def test_linears_stay_inside(candidate: Candidate, scheme: str, edge: Edge) -> None:
    """Stored rows, packed weights, activations, scratch, bias and outputs; one and two terms by turns."""
    sizes = row_sizes(scheme)
    for i, num_rows in enumerate(NUM_ROWS):
        n, k = NUM_CHANNELS[i % len(NUM_CHANNELS)], sizes[i % len(sizes)]
        rows, x, bias = random_rows(scheme, n, k), activations(num_rows, k), activations(1, n)[0]
        is_wide, settings = i % 3 == 1, (None if i % 4 == 3 else bias, candidate.exact)
        with candidate.open():
            expected = _native.linear(scheme, rows, n, k, x, *settings, is_wide=is_wide)
            inputs = (guarded(rows, edge), n, k, guarded(x, edge))
            bias_N = None if settings[0] is None else guarded(bias, edge)
            out = guarded_empty((num_rows, n), np.float32, edge)
            with guarded_arenas(edge):
                given = _native.linear(scheme, *inputs, bias_N, candidate.exact, is_wide=is_wide, out=out)
        np.testing.assert_array_equal(given, expected, err_msg=f"{num_rows} rows, {n} x {k}")


@pytest.mark.parametrize("edge", EDGES)
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("isa", sorted({candidate.isa for candidate in NATIVE if candidate.isa is not None}))
def test_packing_and_dequantizing_stay_inside(isa: str, scheme: str, edge: Edge) -> None:
    before = _native.isa()
    _native.set_isa(isa)
    for n in NUM_CHANNELS:
        for k in row_sizes(scheme):
            rows = random_rows(scheme, n, k)
            moved = guarded(rows, edge)
            with guarded_arenas(edge):
                packed = _native.pack(scheme, moved, k).copy()
            np.testing.assert_array_equal(packed, _native.pack(scheme, rows, k))
            np.testing.assert_array_equal(_native.dequantize(scheme, moved, k), _native.dequantize(scheme, rows, k))
    _native.set_isa(before)


def moved_weights(weights: dict[str, Weight], edge: Edge) -> dict[str, Weight]:
    """The weights with their payloads at the edge: tables are read from there, matrices packed from there."""
    return {
        name: Weight(name, tuple(Tensor(p.name, p.shape, p.scheme, guarded(p.payload, edge)) for p in weight.parts))
        for name, weight in weights.items()
    }


def guarded_program(plan: Plan, weights: dict[str, Weight], limits: Limits, num_blocks: int, edge: Edge) -> Executable:
    """The plan with everything at the edge that it has: weights, buffers, scratch, cache."""
    with guarded_programs(edge) as spread:
        executable = CpuBackend().compile(plan, moved_weights(weights, edge), limits)
        spread.close_gaps(executable._program)
    memory = guarded_empty((num_blocks * executable.kv_bytes_per_block,), np.uint8, edge, alignment=64)
    memory[...] = 0xFF
    executable.bind_kv(memory, num_blocks)
    return executable


def check_same(plain: Executable, moved: Executable, steps: tuple[StepInputs, ...], edge: Edge) -> None:
    """Both give the same bits for every step."""
    for inputs in steps:
        expected = plain.run(inputs, want_logits=True)
        given = moved.run(guarded_step(inputs, edge), want_logits=True)
        np.testing.assert_array_equal(given.logits_SV, expected.logits_SV)
        np.testing.assert_array_equal(given.token_ids_S, expected.token_ids_S)


def limits_of(steps: tuple[StepInputs, ...]) -> Limits:
    """Those of the largest step, which so uses every row of every buffer to its last byte."""
    most = max(len(inputs.token_ids_T) for inputs in steps)
    return replace(LIMITS, max_num_batched_tokens=most, max_num_logits_rows=most)


def run_case(case: OneOp, *, exact: bool, edge: Edge) -> None:
    for plan in case.plans:
        weights = {name: case.weights[name] for name in plan.weights()}
        limits = replace(limits_of(case.steps), exact=exact)
        try:
            plain = program(CpuBackend(), plan, weights, limits, num_blocks=16)
        except BackendError:
            continue  # the conformance suite shows refusals
        check_same(plain, guarded_program(plan, weights, limits, 16, edge), case.steps, edge)


@pytest.mark.parametrize("edge", EDGES)
@pytest.mark.parametrize("candidate", NATIVE, ids=str)
@pytest.mark.parametrize("spec", OPS.values(), ids=lambda spec: spec.name)
def test_ops_stay_inside(spec: OpSpec, candidate: Candidate, edge: Edge) -> None:
    """Every op of the vocabulary in its odd shapes, alone in a program: the cases of the conformance suite."""
    cases = spec.sample(np.random.default_rng(0))
    for i, case in enumerate(cases):
        fitting = ["F32"]
        if spec.matrix is not None:
            fitting = [scheme for scheme in STORED if fits(scheme, case.weights[spec.matrix])]
        with candidate.open():
            run_case(one_op(spec, case, fitting[i % len(fitting)]), exact=candidate.exact, edge=edge)


@pytest.mark.parametrize("edge", EDGES)
@pytest.mark.parametrize("candidate", NATIVE, ids=str)
def test_fused_models_stay_inside(candidate: Candidate, edge: Edge) -> None:
    """What only the passes make: norms that quantize, gates and ups interleaved, sums in the epilogue."""
    gated = gated_model("silu", 512, "Q5_0", "Q5_0", "Q4_K", bias=True, stacked=False)
    for plan, weights in (gated, *((tiny.plan, tiny.weights) for tiny in map(tiny_plan, MODELS))):
        inputs = step([(range(19), 0), (range(12, 0, -1), 0)], limits=LIMITS)
        limits = replace(limits_of((inputs,)), exact=candidate.exact)
        rewritten = reduce(lambda plan, rewrite: rewrite(plan), CpuBackend.passes, plan)
        with candidate.open():
            plain = program(CpuBackend(), rewritten, weights, limits, num_blocks=16)
            check_same(plain, guarded_program(rewritten, weights, limits, 16, edge), (inputs,), edge)


@pytest.mark.parametrize("edge", EDGES)
@pytest.mark.parametrize("candidate", NATIVE, ids=str)
def test_attention_stays_inside_the_blocks_of_its_request(candidate: Candidate, edge: Edge) -> None:
    """Every second block of the cache is forbidden; contexts of one token to more than a split of 512."""
    p = Recorder()
    sizes = {"q": 7 * 64, "k": 64, "v": 64}
    q, k, v = (ops.embedding(p, p.token_ids, WeightRef(name, (20, size))) for name, size in sizes.items())
    heads = (ops.heads(p, value, size // 64) for value, size in zip((q, k, v), sizes.values(), strict=True))
    plan = p.plan(ops.select_rows(p, ops.attention(p, *heads, 0, scale=0.1, window=None)))
    rng = np.random.default_rng(0)
    tables = {name: rng.normal(size=(20, size)).astype(np.float32) for name, size in sizes.items()}
    weights = {n: Weight(n, (Tensor(n, t.shape, "F32", t.view(np.uint8)),)) for n, t in tables.items()}
    limits = Limits(
        max_num_batched_tokens=480,
        max_num_requests=1,
        max_num_logits_rows=480,
        block_size=16,
        max_blocks_per_request=37,
        num_threads=2,
        exact=candidate.exact,
    )
    with candidate.open():
        plain = program(CpuBackend(), plan, weights, limits, num_blocks=74)
        moved = guarded_program(plan, weights, limits, 1, edge)
        block_bytes = moved.kv_bytes_per_block
        assert block_bytes % PAGE == 0, "a block is whole pages, so that its neighbours can be forbidden"
        memory = guarded_empty((75 * block_bytes,), np.uint8, edge)
        memory[...] = 0xFF
        for block in range(0, 75, 2):
            forbid(memory.ctypes.data + block * block_bytes, block_bytes)
        moved.bind_kv(memory, 75)
        done = 0
        for count in (1, 2, 13, 1, 16, 480, 1, 60):
            blocks = [[2 * i + 1 for i in range(-(-(done + count) // 16))]]
            ids = rng.integers(0, 20, count).tolist()
            inputs = step([(ids, done)], block_tables=blocks, limits=limits)
            check_same(plain, moved, (inputs,), edge)
            done += count


@pytest.mark.parametrize("edge", EDGES)
@pytest.mark.parametrize("isa", sorted({candidate.isa for candidate in NATIVE if candidate.isa is not None}))
@pytest.mark.parametrize("vocab_size", [1, 5, 16, 97, 1013])
def test_sampling_stays_inside(vocab_size: int, isa: str, edge: Edge) -> None:
    num_rows = 24
    rng = np.random.default_rng(vocab_size)
    table = rng.normal(0, 3, (num_rows, vocab_size)).astype(np.float32)
    p = Recorder()
    plan = p.plan(ops.select_rows(p, ops.embedding(p, p.token_ids, WeightRef("table", table.shape))))
    weights = {"table": Weight("table", (Tensor("table", table.shape, "F32", table.view(np.uint8)),))}
    sampling = sampling_inputs(
        num_rows,
        temperature=rng.uniform(0, 2, num_rows),
        top_k=rng.integers(0, vocab_size + 3, num_rows),
        top_p=rng.uniform(0.2, 1.0, num_rows),
        min_p=np.where(rng.random(num_rows) < 0.5, 0.1, 0.0),
        frequency=1.0,
        repetition=1.2,
        history=[rng.integers(0, vocab_size, 9).tolist() for _ in range(num_rows)],
        bias=[{int(rng.integers(0, vocab_size)): 1.5} for _ in range(num_rows)],
        seed=3,
        position=np.arange(num_rows),
        num_logprobs=np.arange(num_rows) % 7 - 1,
    )
    inputs = step([(range(num_rows), 0)], sampling=sampling, limits=LIMITS)
    before = _native.isa()
    _native.set_isa(isa)
    limits = limits_of((inputs,))
    plain = program(CpuBackend(), plan, weights, limits, num_blocks=16)
    check_same(plain, guarded_program(plan, weights, limits, 16, edge), (inputs,), edge)
    _native.set_isa(before)
