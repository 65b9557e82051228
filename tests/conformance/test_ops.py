"""Generated: every op x backend x storage scheme x case agrees with the reference in float64.

What a backend refuses is a skip that shows its reason. The table grows with `plan.registry`; nothing is written here
for an op.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from tests.conformance.backends import CANDIDATES, ORACLE, Candidate
from tests.conformance.one_op import one_op
from tests.conformance.scheme import SCHEMES, fits

from pelton.errors import BackendError
from pelton.plan.op_spec import Case, OpSpec
from pelton.plan.registry import OPS

pytestmark = pytest.mark.cpu


def cases() -> Iterator[tuple[OpSpec, Case, str]]:
    """Every case of every op, in every scheme that its matrix fits."""
    for spec in OPS.values():
        for case in spec.sample(np.random.default_rng(0)):
            schemes = ["F32"]
            if spec.matrix is not None:
                matrix = case.weights[spec.matrix]
                schemes = [scheme for scheme in SCHEMES if fits(scheme, matrix)]
            for scheme in schemes:
                yield spec, case, scheme


def relative_error(actual: np.ndarray, exact: np.ndarray) -> float:
    """The largest error of a row against the largest magnitude of that row, over all rows."""
    scale_S = np.maximum(np.abs(exact.astype(np.float64)).max(axis=1), 1e-30)
    return float((np.abs(actual.astype(np.float64) - exact).max(axis=1) / scale_S).max())


CASES = [pytest.param(*case, id=f"{case[0].name}-{case[1].name}-{case[2]}") for case in cases()]


@pytest.mark.parametrize("candidate", CANDIDATES, ids=str)
@pytest.mark.parametrize(("spec", "case", "scheme"), CASES)
def test_backend_agrees_with_the_oracle(candidate: Candidate, spec: OpSpec, case: Case, scheme: str) -> None:
    wrapped = one_op(spec, case, scheme)
    try:
        with candidate.open() as backend:
            given = wrapped.run(backend, exact=candidate.exact)
    except BackendError as refusal:
        if not str(refusal):
            pytest.fail(f"{candidate} refuses {spec.name} without a reason")
        pytest.skip(f"{candidate} refuses: {refusal}")
    for actual, exact in zip(given, wrapped.run(ORACLE), strict=True):
        assert actual.shape == exact.shape
        assert np.isfinite(exact).all(), "the case itself is not finite"
        error = relative_error(actual, exact)
        assert error <= spec.tolerance[candidate.arithmetic], f"{spec.name}: relative error {error:.2e}"


def test_every_scheme_reaches_every_op_with_a_matrix():
    seen = {(spec.name, scheme) for spec, _, scheme in cases()}
    with_matrix = [spec.name for spec in OPS.values() if spec.matrix is not None]
    assert {(name, scheme) for name in with_matrix for scheme in SCHEMES} <= seen


def test_the_wrapping_is_the_identity():
    """A case that only passes through shows its own numbers: the door adds nothing."""
    spec = OPS["heads"]
    for case in spec.sample(np.random.default_rng(1)):
        (rows,) = one_op(spec, case).run(ORACLE)
        table = case.inputs[0]
        np.testing.assert_allclose(rows, np.concatenate((table, table[::-1])), rtol=1e-7)


def test_the_comparison_has_teeth():
    """Another activation, a window one token wider and another scale are all seen under the widest tolerance."""
    for name, first, second in (("activation", 0, 1), ("gated", 0, 1), ("scale", 0, 1)):
        spec = OPS[name]
        cases_of_op = spec.sample(np.random.default_rng(0))
        (a,), (b,) = (one_op(spec, cases_of_op[i]).run(ORACLE) for i in (first, second))
        assert relative_error(a, b) > max(spec.tolerance.values()), name
    spec = OPS["attention"]
    case = next(case for case in spec.sample(np.random.default_rng(0)) if case.attributes["window"] == 5)
    (a,) = one_op(spec, case).run(ORACLE)
    (b,) = one_op(spec, replace(case, attributes={**case.attributes, "window": 6})).run(ORACLE)
    assert relative_error(a, b) > max(spec.tolerance.values())
