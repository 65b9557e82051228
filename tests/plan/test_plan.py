"""Plans print, compare and know their weights."""

import pytest
from tests.tiny_plans import MODELS, tiny_plan

from pelton.plan import Recorder, Weights, ops

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("name", MODELS)
def test_printed_plan(name, golden):
    golden.check(f"plan/{name}.txt", str(tiny_plan(name).plan))


def test_recording_twice_gives_equal_plans():
    assert tiny_plan("llama_like").plan == tiny_plan("llama_like").plan
    assert tiny_plan("llama_like").plan != tiny_plan("gemma_like").plan


def test_weights_are_listed_once_in_order_of_use():
    names = list(tiny_plan("llama_like").plan.weights())
    assert names[:3] == ["embed", "layers.0.attn_norm", "layers.0.qkv"]
    assert names[-1] == "norm"
    assert len(names) == len(set(names))


def test_attribute_by_name():
    p = Recorder()
    x = ops.embedding(p, p.token_ids, Weights({"embed": (5, 4)})["embed"])
    ops.scale(p, x, 3.0)
    assert p.nodes[-1].attribute("factor") == 3.0
    with pytest.raises(KeyError):
        p.nodes[-1].attribute("cap")
