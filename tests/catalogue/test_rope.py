"""Rotary embeddings that were lost on the way: theta, scaling, partial rotation, one base for two kinds of layers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.catalogue.configs import FAMILIES, SCALINGS, make_config, read, scaled_ropes, with_rope
from tests.inspection.models import found, write
from tests.model_files import f32, llama_gguf, text, u32
from transformers import AutoConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from pelton.checkpoint.checkpoint import open_checkpoint
from pelton.checkpoint.model_spec import ModelSpec, RopeScaling
from pelton.checkpoint.rope import rotary_frequencies
from pelton.errors import CheckpointError

pytestmark = pytest.mark.unit


# Phi-3's first files call LongRoPE "yarn": without its lists they are refused.
PAIRS = [(family, kind) for family in FAMILIES for kind in SCALINGS if (family, kind) != ("phi3", "yarn")]


@pytest.mark.parametrize(("family", "kind"), PAIRS)
def test_every_scaling_in_every_family_is_carried(family: str, kind: str) -> None:
    """A1, A6, A20 to A22, A24: a class that forgot the field loads as if the model had none."""
    plain = read(with_rope(make_config(family), {"rope_type": "default"}, version=5))
    scaled = read(with_rope(make_config(family), SCALINGS[kind], version=5))
    assert scaled_ropes(plain) == set()
    (rope,) = scaled_ropes(scaled)
    assert rope.scaling is not None
    assert rope.scaling.kind == kind
    frequencies, factor = rotary_frequencies(rope, 1024)
    unscaled, _ = rotary_frequencies(replace(rope, scaling=None), 1024)
    assert frequencies != unscaled or factor != 1.0


@pytest.mark.parametrize(("family", "kind"), PAIRS)
def test_both_spellings_of_a_scaling_are_one_model(family: str, kind: str) -> None:
    """A18, A20: readers written for one version of transformers fall back to defaults for the other."""
    new, old = (read(with_rope(make_config(family), SCALINGS[kind], version=version)) for version in (5, 4))
    assert new == old
    thetas = {layer.rope.theta for layer in new.layers if layer.rope is not None}
    assert thetas == ({700.0, 30.0} if family == "gemma3" else {700.0})


def test_both_spellings_in_one_file_must_agree() -> None:
    """A18: a file that has both is read by each program in its own way."""
    config = with_rope(make_config("llama"), SCALINGS["yarn"], version=4)
    both = with_rope(config, SCALINGS["yarn"], version=5)
    assert read(both) == read(config)
    both["rope_scaling"]["factor"] = 2.0
    with pytest.raises(CheckpointError, match="has both rope_parameters and rope_scaling"):
        read(both)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_part_of_a_scaling_that_nobody_reads_is_refused(family: str) -> None:
    """A11, A22: a kind or a number that has no meaning here would be dropped in silence."""
    for scaling in ({"rope_type": "quadratic", "factor": 2.0}, {**SCALINGS["linear"], "gamma": 0.5}):
        for version in (4, 5):
            with pytest.raises(CheckpointError, match=r"'quadratic' is not supported|'gamma' \(0\.5\) is not known"):
                read(with_rope(make_config(family), scaling, version=version))


YARNS: dict[str, dict[str, Any]] = {
    "factor alone": {},
    "attention factor": {"attention_factor": 1.25},
    "mscale": {"mscale": 1.0, "mscale_all_dim": 0.707},
    "mscale of one side": {"mscale": 0.8},
    "betas": {"beta_fast": 8.0, "beta_slow": 2.0},
    "not rounded": {"truncate": False},
}


@pytest.mark.parametrize("name", YARNS)
def test_yarn_has_the_frequencies_and_the_magnitude_of_transformers(name: str) -> None:
    """A8, A10, A19: right frequencies with a magnitude of one, or no scaling where no betas are written."""
    parameters = {"rope_theta": 700.0, **SCALINGS["yarn"], **YARNS[name]}
    sizes = {"hidden_size": 256, "num_attention_heads": 4, "max_position_embeddings": 256, "head_dim": 64}
    theirs = AutoConfig.for_model("llama", **sizes, rope_parameters=parameters)
    expected, factor = ROPE_INIT_FUNCTIONS["yarn"](theirs, "cpu")
    spec = read({"architectures": ["LlamaForCausalLM"], **sizes, "rope_parameters": parameters})
    (rope,) = scaled_ropes(spec)
    frequencies, magnitude = rotary_frequencies(rope, 256)
    np.testing.assert_allclose(frequencies, expected.numpy(), rtol=1e-6)
    assert magnitude == pytest.approx(factor, rel=1e-6)
    assert magnitude != 1.0


def test_the_base_of_ten_thousand_is_a_base() -> None:
    """A16: the value that is the default was taken for the absence of positions."""
    spec = read(make_config("llama", rope_theta=10000.0))
    assert {layer.rope.theta for layer in spec.layers if layer.rope is not None} == {10000.0}
    assert all(layer.rope is not None for layer in spec.layers)


def test_gemma3_scales_its_full_layers_alone() -> None:
    """A13, A14, A31: one base for both kinds of layers, or the factor on all of them."""
    config = make_config("gemma3", num_hidden_layers=6)
    spec = read(with_rope(config, {"rope_type": "linear", "factor": 8.0}, version=4, theta=1e6))
    angles = [rotary_frequencies(layer.rope, 256)[0][1] for layer in spec.layers if layer.rope is not None]
    local, full = 30.0 ** -(2 / 12), 1e6 ** -(2 / 12) / 8.0
    np.testing.assert_allclose(angles, [local] * 5 + [full], rtol=1e-9)
    assert [layer.window for layer in spec.layers] == [9] * 5 + [None]


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("kind", [None, *(kind for kind in SCALINGS if kind != "yarn")])
def test_a_part_of_the_dimensions_turns_with_and_without_scaling(kind: str | None, version: int) -> None:
    """A25, A26: the factor was honoured only where a scaling stood beside it."""
    scaling = dict(SCALINGS[kind]) if kind else {"rope_type": "default"}
    for name in ("short_factor", "long_factor"):
        if name in scaling:
            scaling[name] = scaling[name][:3]
    config = with_rope(make_config("phi3"), scaling, version=version)
    if version == 4:
        config |= {"partial_rotary_factor": 0.5}
    else:
        config["rope_parameters"]["partial_rotary_factor"] = 0.5
    assert {layer.rope.rotary_dim for layer in read(config).layers if layer.rope is not None} == {6}


def test_a_quantized_model_keeps_its_scaling() -> None:
    """A23: a second path for quantized checkpoints dropped what the first one kept."""
    config = with_rope(make_config("llama"), SCALINGS["yarn"], version=4)
    quantized = {**config, "quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": 32}}
    assert read(quantized) == read(config)


@pytest.mark.parametrize("field", ["rope_interleaved", "mrope_section", "rope_interleave", "alibi"])
def test_another_pairing_of_dimensions_is_refused(field: str) -> None:
    """A27, A28: neighbours or halves, the wrong one gives fluent nonsense."""
    with pytest.raises(CheckpointError, match=field):
        read(make_config("llama", **{field: True}))


def gguf_spec(path: Path, architecture: str = "llama", **changes: bytes | None) -> ModelSpec:
    path.write_bytes(llama_gguf(architecture, **changes))
    with open_checkpoint(path) as checkpoint:
        return checkpoint.spec


def test_a_gguf_that_leaves_the_base_out(tmp_path: Path) -> None:
    """A15: 10000 was assumed for models trained with 1e6."""
    with pytest.raises(CheckpointError, match=r"rope\.freq_base is missing, and there is no safe value to assume"):
        gguf_spec(tmp_path / "q.gguf", "qwen2", ARCH__rope__freq_base=None)
    gguf_spec(tmp_path / "l.gguf", ARCH__rope__freq_base=None)
    assert "config.rope-base" in found(tmp_path / "l.gguf")


def test_the_scaling_keys_of_a_gguf_are_all_read(tmp_path: Path) -> None:
    """A1, A17: keys that no reader maps leave an unscaled model."""
    keys = {
        "ARCH__rope__scaling__type": text("yarn"),
        "ARCH__rope__scaling__factor": f32(4.0),
        "ARCH__rope__scaling__original_context_length": u32(16),
        "ARCH__rope__scaling__yarn_beta_fast": f32(8.0),
        "ARCH__rope__scaling__yarn_beta_slow": f32(2.0),
        "ARCH__rope__scaling__attn_factor": f32(1.5),
    }
    (rope,) = scaled_ropes(gguf_spec(tmp_path / "x.gguf", **keys))
    assert rope.scaling is not None
    attention = 1.5 * (0.1 * np.log(4.0) + 1.0)
    expected = RopeScaling(kind="yarn", factor=4.0, original_max_position=16, beta_fast=8.0, beta_slow=2.0)
    assert replace(rope.scaling, attention_factor=None) == expected
    assert rope.scaling.attention_factor == pytest.approx(attention)
    linear = gguf_spec(tmp_path / "x.gguf", ARCH__rope__scaling__factor=f32(4.0))
    assert scaled_ropes(linear) == scaled_ropes(
        gguf_spec(tmp_path / "x.gguf", ARCH__rope__scaling__type=text("linear"), ARCH__rope__scaling__factor=f32(4.0))
    )
    with pytest.raises(CheckpointError, match="'yarn_gamma'"):
        gguf_spec(tmp_path / "x.gguf", ARCH__rope__scaling__type=text("none"), ARCH__yarn_gamma=f32(1.0))


def test_a_llama_3_1_without_its_divisors_is_suspected(tmp_path: Path) -> None:
    """A3: the function that makes them was never called; A30: the publisher forgot the field."""
    path = tmp_path / "x.gguf"
    path.write_bytes(llama_gguf(ARCH__context_length=u32(131072), ARCH__rope__freq_base=f32(500000.0)))
    assert "config.rope-missing" in found(path)
    directory = write(tmp_path / "hf", config={"rope_theta": 500000.0, "max_position_embeddings": 131072})
    assert "config.rope-missing" in found(directory)
    write(directory, config={"rope_theta": 500000.0, "max_position_embeddings": 8192})
    assert "config.rope-missing" not in found(directory)


def test_a_model_in_the_layout_of_mistral_is_not_guessed_at(tmp_path: Path) -> None:
    """A9: params.json says things in its own way; it is never mixed with config.json."""
    (tmp_path / "params.json").write_text('{"dim": 64, "yarn": {"apply_scale": true}}')
    (tmp_path / "consolidated.safetensors").write_bytes(b"x")
    with pytest.raises(CheckpointError, match="no model in it"):
        open_checkpoint(tmp_path)
