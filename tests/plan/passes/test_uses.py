"""Only linears that are read exactly once are offered to fusions."""

import pytest
from tests.plan.passes.plans import ref

from pelton.plan import Recorder, ops
from pelton.plan.passes.uses import single_use_linears

pytestmark = pytest.mark.unit


def test_reads_are_counted_and_the_output_is_one():
    p = Recorder()
    x = ops.embedding(p, p.token_ids, ref("embed"))
    once, twice, unread, output = (ops.linear(p, x, ref("square")) for _ in range(4))
    ops.add(p, ops.add(p, once, twice), twice)
    ops.scale(p, output, 2.0)
    plan = p.plan(output)
    assert list(single_use_linears(plan)) == [once.id]
    assert unread.id not in single_use_linears(plan)
