"""What config.json says about experts: either name of their number, which layers have them, and what goes with them."""

import pytest

from pelton.checkpoint.fields import Fields
from pelton.checkpoint.hf.experts import read_mixtral_experts, read_num_experts, read_qwen_experts, with_experts
from pelton.checkpoint.hf.spec import read_spec
from pelton.checkpoint.model_spec import Experts, LayerSpec
from pelton.errors import CheckpointError

pytestmark = pytest.mark.unit

DEFAULTS = Experts(
    num_experts=60, num_experts_per_token=4, intermediate_size=9, normalised=False, shared_intermediate_size=7
)


def fields(**values) -> Fields:
    return Fields("config.json", values)


def test_silence_means_the_defaults_of_the_family():
    assert read_qwen_experts(fields(), DEFAULTS) == DEFAULTS
    assert read_mixtral_experts(fields(), 11) == Experts(
        num_experts=8, num_experts_per_token=2, intermediate_size=11, normalised=True
    )


def test_every_field_is_read():
    given = fields(
        num_experts=6,
        num_experts_per_tok=3,
        moe_intermediate_size=40,
        norm_topk_prob=True,
        shared_expert_intermediate_size=52,
    )
    assert read_qwen_experts(given, DEFAULTS) == Experts(
        num_experts=6,
        num_experts_per_token=3,
        intermediate_size=40,
        normalised=True,
        shared_intermediate_size=52,
    )
    given.check_all_read()


def test_the_number_of_experts_has_two_names():
    assert [read_num_experts(fields(**{name: 5}), 8) for name in ("num_experts", "num_local_experts")] == [5, 5]
    with pytest.raises(CheckpointError, match="num_experts is 5 and num_local_experts 6; they must agree"):
        read_num_experts(fields(num_experts=5, num_local_experts=6), 8)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, "11111"),
        ({"decoder_sparse_step": 2}, "01010"),
        ({"mlp_only_layers": [0, 3]}, "01101"),
        ({"decoder_sparse_step": 2, "mlp_only_layers": [1]}, "00010"),
    ],
)
def test_layers(values, expected):
    layers = with_experts(fields(**values), (LayerSpec(rope=None, window=3),) * 5)
    assert "".join(str(int(layer.has_experts)) for layer in layers) == expected
    assert {layer.window for layer in layers} == {3}


def test_a_layer_that_is_not_there():
    with pytest.raises(CheckpointError, match="mlp_only_layers names layers that are not among the 5"):
        with_experts(fields(mlp_only_layers=[5]), (LayerSpec(rope=None),) * 5)


QWEN2 = {"architectures": ["Qwen2MoeForCausalLM"], "num_hidden_layers": 4, "sliding_window": 5, "max_window_layers": 3}


@pytest.mark.parametrize(
    ("change", "windows"),
    [
        ({}, [5, None, 5, None]),
        ({"max_window_layers": 1}, [5, None, None, None]),
        ({"use_sliding_window": False, "sliding_window": 0}, [None] * 4),
    ],
)
def test_windows_of_qwen2_moe_alternate_below_max_window_layers(change, windows):
    spec = read_spec({**QWEN2, "use_sliding_window": True, **change}, source="config.json")
    assert [layer.window for layer in spec.layers] == windows
    assert spec.qkv_bias


def test_biases_of_qwen2_moe_are_a_field():
    assert not read_spec({**QWEN2, "qkv_bias": False}, source="config.json").qkv_bias


def test_experts_reach_the_specification():
    config = {"architectures": ["Qwen3MoeForCausalLM"], "num_hidden_layers": 4, "num_local_experts": 9}
    spec = read_spec({**config, "decoder_sparse_step": 2, "mlp_only_layers": [3]}, source="config.json")
    assert [layer.has_experts for layer in spec.layers] == [False, True, False, False]
    assert spec.experts == Experts(num_experts=9, num_experts_per_token=8, intermediate_size=768, normalised=False)
