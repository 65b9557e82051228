"""Tensors that were lost, doubled, confused or made up: layout, norms, tied heads, biases."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests.catalogue.configs import FAMILIES, make_config, read
from tests.catalogue.tensors import load, make_tensors
from tests.fakes import TinyModel, write_safetensors
from tests.inspection.models import change, found, inspect, shard, write
from tests.model_files import llama_gguf

from pelton.checkpoint.checkpoint import open_checkpoint
from pelton.checkpoint.model_spec import ModelSpec
from pelton.errors import CheckpointError
from pelton.loading.weights import load_weights
from pelton.models import ARCHITECTURES, find_model

pytestmark = pytest.mark.unit

GPT2 = {"architectures": ["GPT2LMHeadModel"], "n_embd": 48, "n_head": 4, "n_layer": 2, "vocab_size": 96}
CONFIGS = {**{family: make_config(family) for family in FAMILIES}, "gpt2": GPT2}
# Architectures that are not here, and what became of them elsewhere: rows whose check is that they are refused.
ELSEWHERE = [
    *("DeepseekV2ForCausalLM", "DeepseekV3ForCausalLM", "DeepseekV32ForCausalLM", "Mistral4ForCausalLM"),
    *("Lfm2ForCausalLM", "NemotronForCausalLM", "Glm4ForCausalLM", "FalconForCausalLM", "GptOssForCausalLM"),
    *("Qwen3_5ForCausalLM", "Qwen3NextForCausalLM", "Llama4ForCausalLM", "Gemma4ForCausalLM", "Sam3Model"),
    *("StableLmForCausalLM", "Glm4MoeForCausalLM", "WhisperForConditionalGeneration", "Ministral3ForCausalLM"),
]


def spec_of(family: str) -> ModelSpec:
    return read(CONFIGS[family])


@pytest.mark.parametrize("architecture", ELSEWHERE)
def test_an_architecture_that_is_not_here_is_refused_by_name(architecture: str) -> None:
    """A12, A21, A24, A27, A29, B10 to B12, B14 to B16, D8, F6, I2, I12, J5, J6: nothing is run as its nearest kin."""
    with pytest.raises(CheckpointError, match=rf"'{architecture}' is not supported"):
        read(make_config("llama", architectures=[architecture]))


@pytest.mark.parametrize("family", CONFIGS)
def test_each_tensor_that_is_taken_away_is_missed(family: str) -> None:
    """D3, D5, D7 to D10, E2, M4: what is missing stays random, zero, or that of another layer."""
    spec = spec_of(family)
    tensors = make_tensors(spec)
    for name in tensors:
        with pytest.raises(CheckpointError, match=f"{name}.* missing"):
            load(spec, {other: array for other, array in tensors.items() if other != name})


@pytest.mark.parametrize("family", CONFIGS)
def test_a_tensor_that_nobody_wants_is_named(family: str) -> None:
    """D6, D7, J5: unknown tensors are stepped over, and with them what they stood for."""
    spec = spec_of(family)
    extra = {"model.layers.0.mlp.gate.e_score_correction_bias": np.ones(4, dtype=np.float32)}
    with pytest.raises(CheckpointError, match=r"e_score_correction_bias is in no row of the weight map"):
        load(spec, make_tensors(spec) | extra)


@pytest.mark.parametrize("family", CONFIGS)
def test_the_order_of_a_file_means_nothing(family: str) -> None:
    """B8, B17: parts were assigned in the order they came, experts in the order of their names as text."""
    spec = spec_of(family)
    tensors = make_tensors(spec)
    expected = load(spec, tensors)
    for order in (sorted(tensors), sorted(tensors, reverse=True)):
        actual = load(spec, {name: tensors[name] for name in order})
        assert actual.keys() == expected.keys()
        assert all(np.array_equal(actual[name], expected[name]) for name in expected)


def test_twelve_experts_keep_their_numbers() -> None:
    """B17: ten stood behind one and before two."""
    spec = read(make_config("qwen3_moe", num_experts=12))
    tensors = make_tensors(spec)
    for name in tensors:
        if ".experts." in name:
            tensors[name][:] = float(name.split(".experts.")[1].partition(".")[0])
    loaded = load(spec, dict(sorted(tensors.items())))
    for short, rows in (("experts_gate_up", 48), ("experts_down", 48)):
        assert loaded[f"layers.1.{short}"][::rows, 0].tolist() == [float(expert) for expert in range(12)]


def test_gate_and_up_are_not_symmetric() -> None:
    """B8: silu(up) * gate."""
    spec = spec_of("llama")
    tensors = make_tensors(spec)
    tensors["model.layers.0.mlp.gate_proj.weight"][:] = 1.0
    tensors["model.layers.0.mlp.up_proj.weight"][:] = 2.0
    gate_up = load(spec, tensors)["layers.0.gate_up"]
    assert gate_up[:80].min() == gate_up[:80].max() == 1.0
    assert gate_up[80:].min() == gate_up[80:].max() == 2.0


def test_square_matrices_of_gpt2_are_transposed_too() -> None:
    """B13: a square matrix has the right shape either way."""
    spec = spec_of("gpt2")
    tensors = make_tensors(spec)
    loaded = load(spec, tensors)
    for name, weight in (("attn.c_proj", "out"), ("attn.c_attn", "qkv"), ("mlp.c_fc", "up"), ("mlp.c_proj", "down")):
        np.testing.assert_array_equal(loaded[f"layers.1.{weight}"], tensors[f"transformer.h.1.{name}.weight"].T)


NORMS_OF_GEMMA = ["norm", "attn_norm", "post_attn_norm", "mlp_norm", "post_mlp_norm"]


@pytest.mark.parametrize("family", ["gemma2", "gemma3"])
def test_one_is_added_to_every_norm_of_gemma_once(family: str) -> None:
    """C2 to C4: added again to what a GGUF holds already, or to all but the last norm."""
    spec = spec_of(family)
    names = NORMS_OF_GEMMA + (["q_norm", "k_norm"] if family == "gemma3" else [])
    for naming, stored in (("hf", 0.0), ("gguf", 1.0)):
        tensors = make_tensors(spec, naming)  # type: ignore[arg-type]
        for name, array in tensors.items():
            if "norm" in name:
                array[:] = stored
        loaded = load(spec, tensors, naming)  # type: ignore[arg-type]
        norms = {name: array for name, array in loaded.items() if name.endswith("norm")}
        assert {name.rpartition(".")[2] for name in norms} == set(names)
        assert all((array == 1.0).all() for array in norms.values())


@pytest.mark.parametrize("architecture", [name for name in ARCHITECTURES if not name.startswith("gemma")])
def test_nothing_is_added_to_the_norms_of_others(architecture: str) -> None:
    """C2."""
    rows = find_model(architecture).WEIGHTS.rows
    assert not [row.to for row in rows if "plus_one" in (row.transform, row.gguf_transform)]


@pytest.mark.parametrize("field", ["norm_eps", "norm_epsilon", "layer_norm_eps", "layer_norm_epsilon"])
def test_an_epsilon_of_another_name_is_refused(field: str) -> None:
    """C6: 1e-6 was taken wherever the field had another name."""
    assert read(make_config("llama")).norm_eps == 0.01
    with pytest.raises(CheckpointError, match=f"'{field}'"):
        read(make_config("llama", **{field: 0.02}))
    assert read({**GPT2, "layer_norm_epsilon": 0.02}).norm_eps == 0.02


def test_a_gguf_without_its_epsilon_is_refused(tmp_path: Path) -> None:
    """C7."""
    (tmp_path / "x.gguf").write_bytes(llama_gguf(ARCH__attention__layer_norm_rms_epsilon=None))
    with pytest.raises(CheckpointError, match="layer_norm_rms_epsilon is missing"):
        open_checkpoint(tmp_path / "x.gguf")


@pytest.mark.parametrize("family", CONFIGS)
def test_the_tied_flag_and_the_stored_head(family: str) -> None:
    """D1, D4: tied and absent, tied and equal, untied and there are sound; the other two are refused."""
    config = CONFIGS[family]
    tied, untied = (read({**config, "tie_word_embeddings": flag}) for flag in (True, False))
    with_head, without = make_tensors(untied), make_tensors(tied)
    (embedding,) = [name for name in without if name.endswith(("embed_tokens.weight", "wte.weight"))]
    assert "lm_head" not in load(tied, without)
    assert "lm_head" in load(untied, with_head)
    assert "lm_head" not in load(tied, {**without, "lm_head.weight": without[embedding]})
    with pytest.raises(CheckpointError, match=r"lm_head\.weight differs from"):
        load(tied, {**without, "lm_head.weight": with_head["lm_head.weight"]})
    with pytest.raises(CheckpointError, match=r"lm_head\.weight is missing"):
        load(untied, without)


def test_a_flag_in_two_places_must_agree() -> None:
    """D13."""
    text = make_config("gemma3")
    outer = {"architectures": ["Gemma3ForConditionalGeneration"], "model_type": "gemma3", "tie_word_embeddings": True}
    assert read({**outer, "text_config": text}).tied_embeddings
    with pytest.raises(CheckpointError, match="tie_word_embeddings differs between the file and its text_config"):
        read({**outer, "text_config": {**text, "tie_word_embeddings": False}})


def test_the_name_of_a_shared_tensor_does_not_matter_and_its_loss_does(tmp_path: Path) -> None:
    """D12: a writer that drops one of two equal tensors leaves a head that is missing, never one that is made up."""
    spec = read(make_config("llama", tie_word_embeddings=True))
    tensors = make_tensors(spec)
    only_head = {**tensors, "lm_head.weight": tensors["model.embed_tokens.weight"]}
    del only_head["model.embed_tokens.weight"]
    with pytest.raises(CheckpointError, match=r"model\.embed_tokens\.weight is missing"):
        load(spec, only_head)


def test_layers_that_the_configuration_promises_and_the_files_lack(tmp_path: Path) -> None:
    """D11, M4: 42 of 78 layers were converted."""
    write(tmp_path, config={"num_hidden_layers": 6})
    assert "weights.layers" in found(tmp_path)
    with open_checkpoint(tmp_path) as checkpoint, pytest.raises(CheckpointError, match=r"model\.layers\.4\..* missing"):
        load_weights(checkpoint, find_model("llama").WEIGHTS, checkpoint.spec)
    with pytest.raises(CheckpointError, match="'num_nextn_predict_layers'"):
        read(make_config("llama", num_nextn_predict_layers=1))


def test_an_adapter_beside_a_model_is_told(tmp_path: Path) -> None:
    """D14."""
    (write(tmp_path) / "adapter_model.safetensors").write_bytes(b"x")
    assert "files.adapter" in found(tmp_path)


@pytest.mark.parametrize("part", "qkv")
def test_a_bias_that_is_missing_is_not_made_up(part: str) -> None:
    """E2: of q, k and v one bias was never loaded."""
    spec = read(make_config("llama", attention_bias=True, mlp_bias=True))
    tensors = make_tensors(spec)
    del tensors[f"model.layers.2.self_attn.{part}_proj.bias"]
    with pytest.raises(CheckpointError, match=rf"model\.layers\.2\.self_attn\.{part}_proj\.bias is missing"):
        load(spec, tensors)


def test_a_bias_that_the_configuration_does_not_know_is_refused() -> None:
    """E3: a bias was ignored because a flag was not read."""
    tensors = make_tensors(read(make_config("llama", attention_bias=True)))
    with pytest.raises(CheckpointError, match="the configuration says that 'llama' has no"):
        load(read(make_config("llama")), tensors)


def test_a_qwen2_without_biases_has_lost_them(tmp_path: Path) -> None:
    """E3: that the file has none was taken for what the model is."""
    (tmp_path / "x.gguf").write_bytes(llama_gguf("qwen2"))
    with open_checkpoint(tmp_path / "x.gguf") as checkpoint:
        spec = checkpoint.spec
    tensors = make_tensors(spec, "gguf")
    without = {name: array for name, array in tensors.items() if not name.endswith("bias")}
    assert len(without) == len(tensors) - 6
    load(spec, tensors, "gguf")
    with pytest.raises(CheckpointError, match=r"attn_q\.bias.* missing"):
        load(spec, without, "gguf")


def test_stale_shards_beside_an_index_are_told_and_not_read(tmp_path: Path) -> None:
    """M2: every file of the directory was merged."""
    shard(write(tmp_path))
    stale = {name: array + 1.0 for name, array in TinyModel().tensors().items()}
    write_safetensors(tmp_path / "model-00003-of-00003.safetensors", stale)
    assert "files.stale-weights" in found(tmp_path)
    with open_checkpoint(tmp_path) as checkpoint:
        row = checkpoint.read("model.norm.weight").payload.view("<f4")
        assert {file.path.name for file in checkpoint.files} == {f"model-0000{i}-of-00002.safetensors" for i in (1, 2)}
    np.testing.assert_array_equal(row.reshape(-1), TinyModel().tensors()["model.norm.weight"])


def test_the_hash_of_a_template_is_printed(tmp_path: Path) -> None:
    """H6: nobody saw that an export had another one."""
    write(tmp_path)
    first = inspect(tmp_path).text.templates
    change(tmp_path / "tokenizer_config.json", {"chat_template": json.dumps("other")})
    assert inspect(tmp_path).text.templates != first
