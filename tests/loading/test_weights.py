"""Every tensor to one place: matching, conditions, stacking, prefixes, and an error for each way it can fail."""

from dataclasses import replace

import numpy as np
import pytest
from tests.loading.memory_checkpoint import MemoryCheckpoint

from pelton.checkpoint.model_spec import Experts, LayerSpec, ModelSpec
from pelton.errors import CheckpointError
from pelton.loading.weights import load_weights
from pelton.plan import Row, WeightMap

pytestmark = pytest.mark.unit

SPEC = ModelSpec(
    architecture="toy",
    vocab_size=5,
    hidden_size=4,
    intermediate_size=8,
    num_heads=2,
    num_kv_heads=1,
    head_dim=2,
    max_position=16,
    layers=(LayerSpec(rope=None),) * 2,
    norm_eps=1e-5,
    attention_scale=1.0,
)
MAP = WeightMap(
    rows=(
        Row(to="embed", hf="model.embed.weight", gguf="token_embd.weight"),
        Row(
            to="lm_head",
            hf="lm_head.weight",
            gguf="output.weight",
            when=lambda spec: not spec.tied_embeddings,
            spare="tied",
        ),
        Row(to="layers.{i}.norm", hf="model.layers.{i}.norm", gguf="blk.{i}.norm", transform="plus_one"),
        Row(to="layers.{i}.qk", hf="model.layers.{i}.q", gguf="blk.{i}.q"),
        Row(to="layers.{i}.qk", hf="model.layers.{i}.k", gguf="blk.{i}.k"),
        Row(to="layers.{i}.bias", hf="model.layers.{i}.b", gguf="blk.{i}.b", when=lambda spec: spec.mlp_bias),
        Row(to="only_hf", hf="model.extra", gguf=None),
    ),
    dropped=(("model.layers.{i}.buffer", "a buffer"),),
    prefixes=(("", "model."), ("base.", "model.")),
)


def tensors(prefix="model.", seed=0):
    rng = np.random.default_rng(seed)
    shapes = {"embed.weight": (5, 4), "extra": (3,)}
    for i in range(2):
        shapes |= {f"layers.{i}.norm": (4,), f"layers.{i}.q": (4, 4), f"layers.{i}.k": (2, 4)}
    arrays = {prefix + name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    return arrays | {"lm_head.weight": rng.normal(size=(5, 4)).astype(np.float32)}


def load(arrays, spec=SPEC, naming="hf"):
    return load_weights(MemoryCheckpoint(arrays, naming=naming), MAP, spec)


def numbers(weight):
    return np.concatenate([part.payload.view(np.float32).reshape(part.shape) for part in weight.parts])


def test_rows_with_one_name_are_stacked_in_the_order_of_the_rows():
    arrays = tensors()
    loaded = load(dict(reversed(arrays.items())))
    assert set(loaded.weights) == {"embed", "lm_head", "only_hf"} | {
        f"layers.{i}.{name}" for i in range(2) for name in ("norm", "qk")
    }
    assert loaded.dropped == ()
    for i in range(2):
        weight = loaded.weights[f"layers.{i}.qk"]
        assert weight.shape == (6, 4)
        stacked = np.concatenate((arrays[f"model.layers.{i}.q"], arrays[f"model.layers.{i}.k"]))
        np.testing.assert_array_equal(numbers(weight), stacked)
        np.testing.assert_array_equal(numbers(loaded.weights[f"layers.{i}.norm"]), arrays[f"model.layers.{i}.norm"] + 1)


def test_gguf_names_and_transforms_are_their_own():
    arrays = {
        name.replace("model.layers", "blk").replace("model.embed", "token_embd").replace("lm_head", "output"): array
        for name, array in tensors().items()
        if name != "model.extra"
    }
    loaded = load(arrays, naming="gguf")
    assert "only_hf" not in loaded.weights
    np.testing.assert_array_equal(numbers(loaded.weights["layers.1.norm"]), arrays["blk.1.norm"])


@pytest.mark.parametrize("prefix", ["", "base."])
def test_other_prefixes(prefix):
    loaded = load(tensors(prefix) | {prefix + "layers.0.buffer": np.ones(1)})
    assert set(loaded.weights) == set(load(tensors()).weights)
    assert loaded.dropped == ((prefix + "layers.0.buffer", "a buffer"),)


def test_spare_tensor_is_dropped_with_its_reason():
    loaded = load(tensors(), replace(SPEC, tied_embeddings=True))
    assert loaded.dropped == (("lm_head.weight", "tied"),)
    assert "lm_head" not in loaded.weights


def test_a_spare_tensor_must_equal_what_it_copies():
    rows = tuple(replace(row, copies="embed") if row.spare else row for row in MAP.rows)
    weight_map, tied = replace(MAP, rows=rows), replace(SPEC, tied_embeddings=True)
    arrays = tensors()
    with pytest.raises(CheckpointError, match=r"lm_head\.weight differs from model\.embed\.weight, and the config"):
        load_weights(MemoryCheckpoint(arrays, tied), weight_map, tied)
    arrays["lm_head.weight"] = arrays["model.embed.weight"].copy()
    loaded = load_weights(MemoryCheckpoint(arrays, tied), weight_map, tied)
    assert loaded.dropped == (("lm_head.weight", "tied"),)
    arrays["lm_head.weight"] = arrays["model.embed.weight"][:, :3]
    with pytest.raises(CheckpointError, match="differs"):
        load_weights(MemoryCheckpoint(arrays, tied), weight_map, tied)


def test_a_condition_asks_for_a_tensor():
    with pytest.raises(CheckpointError, match=r"tensors model\.layers\.0\.b, model\.layers\.1\.b are missing"):
        load(tensors(), replace(SPEC, mlp_bias=True))
    biases = {f"model.layers.{i}.b": np.ones(4) for i in range(2)}
    assert load(tensors() | biases, replace(SPEC, mlp_bias=True)).weights["layers.1.bias"].shape == (4,)


def test_a_tensor_that_must_not_be_there():
    with pytest.raises(CheckpointError, match=r"model\.layers\.1\.b: the configuration says"):
        load(tensors() | {"model.layers.1.b": np.ones(4)})


def test_a_bias_of_zeros_is_dropped_where_the_model_has_none():
    loaded = load(tensors() | {"model.layers.1.b": np.zeros(4)})
    assert loaded.dropped == (("model.layers.1.b", "a bias of zeros, and the model has none"),)


def test_a_tensor_in_no_row_is_named_with_the_nearest():
    with pytest.raises(CheckpointError, match=r"tensor model\.layers\.0\.kk is in no row .* 'model\.layers\.0\.k'\?"):
        load(tensors() | {"model.layers.0.kk": np.ones(4)})


def test_a_layer_too_many_is_no_layer():
    with pytest.raises(CheckpointError, match=r"tensor model\.layers\.2\.q is in no row"):
        load(tensors() | {"model.layers.2.q": np.ones((4, 4))})


def test_every_single_missing_tensor_is_noticed():
    for name in tensors():
        with pytest.raises(CheckpointError, match=rf"tensor {name} is missing"):
            load({k: v for k, v in tensors().items() if k != name})


def test_one_weight_under_two_spellings():
    with pytest.raises(CheckpointError, match=r"base\.extra and model\.extra are the same weight, 'only_hf'"):
        load(tensors() | {"base.extra": np.ones(3)})


def test_parts_that_cannot_be_stacked():
    with pytest.raises(CheckpointError, match=r"model\.layers\.0\.k: has shape \[2, 5\]"):
        load(tensors() | {"model.layers.0.k": np.ones((2, 5))})


EXPERT_MAP = WeightMap(
    rows=(
        Row(to="layers.{i}.up", hf="layers.{i}.x.{x}.gate", gguf="blk.{i}.gate_x", gguf_transform="experts"),
        Row(to="layers.{i}.up", hf="layers.{i}.x.{x}.up", gguf="blk.{i}.up_x", gguf_transform="experts"),
        Row(to="layers.{i}.router", hf="layers.{i}.router", gguf="blk.{i}.router"),
        Row(to="layers.{i}.router", hf="layers.{i}.shared", gguf="blk.{i}.shared", gguf_transform="row"),
    ),
    alternatives=(Row(to="layers.{i}.up", hf="layers.{i}.x.all", gguf=None, transform="experts"),),
)
EXPERT_SPEC = replace(
    SPEC, experts=Experts(num_experts=3, num_experts_per_token=1, intermediate_size=2, normalised=True)
)


def expert_weights(arrays, naming="hf"):
    return load_weights(MemoryCheckpoint(arrays, naming=naming), EXPERT_MAP, EXPERT_SPEC).weights


def test_experts_are_stacked_one_by_one_in_every_spelling():
    """Apart in Hugging Face files, all gates and all ups in GGUF, everything in one tensor; here each layer its own."""
    rng = np.random.default_rng(4)
    gates, ups, routers = (rng.normal(size=shape).astype(np.float32) for shape in ((2, 3, 2, 4),) * 2 + ((2, 4, 4),))
    both = np.concatenate((gates, ups), axis=2)  # [layers, experts, gates and ups, columns]
    apart, stacked = {}, {}
    for layer in range(2):
        apart |= {f"layers.{layer}.router": routers[layer, :3], f"layers.{layer}.shared": routers[layer, 3:]}
        stacked |= {f"blk.{layer}.gate_x": gates[layer], f"blk.{layer}.up_x": ups[layer]}
        stacked |= {f"blk.{layer}.router": routers[layer, :3], f"blk.{layer}.shared": routers[layer, 3]}
    apart |= {f"layers.0.x.{expert}.gate": gates[0, expert] for expert in range(3)}
    apart |= {f"layers.0.x.{expert}.up": ups[0, expert] for expert in reversed(range(3))}
    apart["layers.1.x.all"] = both[1]
    for weights in (expert_weights(apart), expert_weights(stacked, "gguf")):
        for layer in range(2):
            np.testing.assert_array_equal(numbers(weights[f"layers.{layer}.up"]), both[layer].reshape(12, 4))
            np.testing.assert_array_equal(numbers(weights[f"layers.{layer}.router"]), routers[layer])


def test_a_missing_expert_is_named():
    arrays = {
        f"layers.{i}.x.{x}.{part}": np.ones((2, 4)) for i in range(2) for x in range(3) for part in ("gate", "up")
    }
    arrays |= {
        f"layers.{i}.{name}": np.ones((rows, 4)) for i in range(2) for name, rows in (("router", 3), ("shared", 1))
    }
    del arrays["layers.1.x.2.up"]
    with pytest.raises(CheckpointError, match=r"tensor layers\.1\.x\.2\.up is missing"):
        expert_weights(arrays)


def test_tensors_belong_to_layers_of_one_kind_only():
    row = Row(to="layers.{i}.mlp", hf="layers.{i}.mlp", gguf=None, in_layer=lambda layer: layer.window is None)
    spec = replace(SPEC, layers=(LayerSpec(rope=None, window=3), LayerSpec(rope=None)))
    arrays = {"layers.1.mlp": np.ones((2, 2))}
    loaded = load_weights(MemoryCheckpoint(arrays), WeightMap(rows=(row,)), spec)
    assert set(loaded.weights) == {"layers.1.mlp"}
    with pytest.raises(CheckpointError, match=r"layers\.0\.mlp: the configuration says"):
        load_weights(MemoryCheckpoint(arrays | {"layers.0.mlp": np.ones((2, 2))}), WeightMap(rows=(row,)), spec)
