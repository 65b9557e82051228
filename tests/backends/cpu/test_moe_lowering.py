"""Mixtures of experts on the native backend: every scheme of gates and of downs, company, passes, and refusals."""

from dataclasses import replace

import numpy as np
import pytest
from tests.backends.cpu.test_sampling import AVAILABLE
from tests.conformance.scheme import SCHEMES, fits, random_weight
from tests.steps import dense_weight, program, step

from pelton.backends.cpu import CpuBackend, get_isa, set_isa
from pelton.backends.executable import Limits
from pelton.backends.reference import ReferenceBackend
from pelton.checkpoint.weight import Weight
from pelton.errors import BackendError
from pelton.plan import Plan, Recorder, WeightRef, ops

pytestmark = pytest.mark.cpu

NUM_EXPERTS, NUM_CHOSEN, HIDDEN = 7, 3, 256
LIMITS = Limits(
    max_num_batched_tokens=1600,
    max_num_requests=1,
    max_num_logits_rows=1600,
    block_size=16,
    max_blocks_per_request=100,
    num_threads=2,
)


@pytest.fixture(params=AVAILABLE)
def isa(request):
    before = get_isa()
    set_isa(request.param)
    yield request.param
    set_isa(before)


def layer(num_tokens: int, inner_size: int, *, up: str = "F32", down: str = "F32") -> tuple[Plan, dict[str, Weight]]:
    """A router and its experts over rows of a table, the gates and ups of each expert in tensors of their own."""
    rng = np.random.default_rng(3)

    def random(name: str, rows: int, columns: int, scheme: str) -> Weight:
        return random_weight(name, rng.normal(0, columns**-0.5, (rows, columns)).astype(np.float32), scheme)

    halves = [random(f"up.{i}", inner_size, HIDDEN, up).parts[0] for i in range(2 * NUM_EXPERTS)]
    downs = [random(f"down.{i}", HIDDEN, inner_size, down).parts[0] for i in range(NUM_EXPERTS)]
    weights = {
        "table": dense_weight("table", rng.normal(size=(num_tokens, HIDDEN))),
        "router": dense_weight("router", rng.normal(size=(NUM_EXPERTS, HIDDEN))),
        "gate_up": Weight("gate_up", tuple(halves)),
        "down": Weight("down", tuple(downs)),
    }
    refs = {name: WeightRef(name, weight.shape) for name, weight in weights.items()}
    p = Recorder()
    h = ops.embedding(p, p.token_ids, refs["table"])
    weights_TX = ops.route(p, ops.linear(p, h, refs["router"]), NUM_CHOSEN, normalised=True)
    y = ops.experts(p, h, weights_TX, refs["gate_up"], refs["down"], num_chosen=NUM_CHOSEN, kind="silu")
    return p.plan(ops.select_rows(p, y)), weights


def rows(backend, made, tokens, **limits) -> np.ndarray:
    plan, weights = made
    settings = replace(LIMITS, **limits)
    executable = program(backend, plan, weights, settings, num_blocks=settings.max_blocks_per_request)
    return executable.run(step([(list(tokens), 0)], limits=settings), want_logits=True).logits_SV


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("inner_size", [64, 256, 40])
def test_every_scheme(scheme: str, inner_size: int, isa: str) -> None:
    """Downs of quantized schemes need rows of whole blocks; 40 channels are not whole tiles, so gates stand apart."""
    down = scheme if fits(scheme, np.empty((1, inner_size))) else "F32"
    made = layer(11, inner_size, up=scheme, down=down)
    expected = rows(ReferenceBackend("float64"), made, range(11))
    for exact, tolerance in ((False, 5e-2), (True, 1e-2 if scheme == "BF16" else 1e-5)):
        actual = rows(CpuBackend(), made, range(11), exact=exact)
        error = np.abs(actual - expected).max(axis=1) / np.abs(expected).max(axis=1)
        assert error.mean() <= tolerance  # a row of blocks of random bits may cancel to a fraction of its terms


@pytest.mark.parametrize(("scheme", "inner_size"), [("Q4_K", 256), ("F32", 40), ("BF16", 64)])
@pytest.mark.parametrize("wide", ["none", "all"])
def test_a_row_has_the_same_bits_in_any_company(scheme: str, inner_size: int, wide: str, isa: str) -> None:
    """Alone, and with others in any order, on any number of threads."""
    made = layer(90, inner_size, up=scheme, down=scheme)
    order = np.random.default_rng(0).permutation(90)
    alone = np.concatenate(
        [rows(CpuBackend(), made, [token], num_threads=1, wide_activations=wide) for token in order[:9]]
    )
    for num_threads in (1, 2, 3):
        together = rows(CpuBackend(), made, order, num_threads=num_threads, wide_activations=wide)
        np.testing.assert_array_equal(together[:9], alone)


def test_a_step_of_several_passes_gives_the_same_bits():
    made = layer(90, 40)
    few, many = (rows(CpuBackend(), made, np.tile(np.arange(90), times)) for times in (1, 17))
    assert len(many) * NUM_CHOSEN > 4096
    np.testing.assert_array_equal(many, np.tile(few, (17, 1)))


def test_all_tokens_may_want_the_same_experts():
    made = layer(1, 64)
    many = rows(CpuBackend(), made, [0] * 1500)
    np.testing.assert_array_equal(many, np.repeat(rows(CpuBackend(), made, [0]), 1500, axis=0))


def test_experts_stacked_in_one_tensor_give_the_same_bits():
    plan, weights = layer(9, 64, up="Q8_0", down="Q4_0")
    stacked = dict(weights)
    for name in ("gate_up", "down"):
        parts = weights[name].parts
        whole = replace(parts[0], shape=weights[name].shape, stored=np.concatenate([part.payload for part in parts]))
        stacked[name] = Weight(name, (whole,))
    apart, together = (rows(CpuBackend(), (plan, each), range(9)) for each in (weights, stacked))
    np.testing.assert_array_equal(apart, together)


def test_a_nan_shows_in_its_own_row_only():
    plan, weights = layer(4, 64)
    clean = rows(CpuBackend(), (plan, weights), range(4))
    weights["table"].parts[0].payload.view(np.float32)[2, 5] = np.nan
    broken = rows(CpuBackend(), (plan, weights), range(4))
    assert np.isnan(broken[2]).all()
    np.testing.assert_array_equal(np.delete(broken, 2, axis=0), np.delete(clean, 2, axis=0))


def test_experts_of_different_forms_are_refused_by_their_schemes():
    plan, weights = layer(2, 64, up="Q4_0")
    mixed = (dense_weight("up.0", np.zeros((64, HIDDEN))).parts[0], *weights["gate_up"].parts[1:])
    with pytest.raises(BackendError, match="stored as F32, Q4_0, which need different activations"):
        rows(CpuBackend(), (plan, weights | {"gate_up": Weight("gate_up", mixed)}), range(2))


def test_more_chosen_experts_than_are_kept_are_refused():
    p = Recorder()
    logits = ops.embedding(p, p.token_ids, WeightRef("table", (2, 100)))
    plan = p.plan(ops.select_rows(p, ops.route(p, logits, 65, normalised=True)))
    with pytest.raises(BackendError, match="route chooses 65 experts for a token; at most 64"):
        rows(CpuBackend(), (plan, {"table": dense_weight("table", np.zeros((2, 100)))}), range(2))


def test_explain_names_the_experts():
    plan, weights = layer(2, 64, up="Q4_0", down="Q8_0")
    explained = program(CpuBackend(), plan, weights, LIMITS).explain()
    assert ("experts", f"{get_isa()} Q4_0") in {(op, kernel) for op, kernel, _ in explained}
    assert ("experts", f"{get_isa()} Q8_0") in {(op, kernel) for op, kernel, _ in explained}
    assert ("route", get_isa()) in {(op, kernel) for op, kernel, _ in explained}
