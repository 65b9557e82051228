"""Weights by short and by full name; values are numbered once."""

import pytest

from pelton.plan import Recorder, Weights, ops

pytestmark = pytest.mark.unit


def test_layers_look_below_their_own_name():
    w = Weights({"norm": (4,), "layers.0.norm": (5,), "layers.1.norm": (6,)})
    assert w["norm"].shape == (4,)
    assert w.layer(1)["norm"].name == "layers.1.norm"
    assert w.layer(0).get("bias") is None
    with pytest.raises(KeyError, match=r"layers\.2\.norm"):
        w.layer(2)["norm"]


def test_values_have_their_own_numbers():
    p = Recorder()
    x = ops.embedding(p, p.token_ids, Weights({"embed": (5, 4)})["embed"])
    pieces = ops.split(p, x, (1, 3))
    assert len({v.id for v in (p.token_ids, p.positions, x, *pieces)}) == 5
    plan = p.plan(pieces[1])
    assert plan.output.shape == ("T", 3)
    assert plan.inputs == (p.token_ids, p.positions)
