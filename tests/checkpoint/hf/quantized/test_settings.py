"""quantization_config: what is read, and that everything else is refused by name."""

from __future__ import annotations

from typing import Any

import pytest
from tests.checkpoint.hf.quantized.stored import compressed_config

from pelton.checkpoint.hf.quantized.settings import Quantization, read_quantization
from pelton.errors import CheckpointError

pytestmark = pytest.mark.unit

GPTQ = {
    "quant_method": "gptq",
    "bits": 4,
    "group_size": 128,
    "desc_act": False,
    "sym": True,
    "damp_percent": 0.01,
    "true_sequential": True,
    "model_name_or_path": None,
}
AWQ = {
    "quant_method": "awq",
    "bits": 4,
    "group_size": 64,
    "zero_point": True,
    "version": "gemm",
    "modules_to_not_convert": None,
}


def read(config: dict[str, Any]) -> Quantization:
    quantization = read_quantization({"quantization_config": config}, "config.json")
    assert quantization is not None
    return quantization


def test_a_model_without_the_field_is_not_quantized() -> None:
    assert read_quantization({"hidden_size": 4, "quantization_config": None}, "config.json") is None


def test_the_field_may_stand_in_the_text_model() -> None:
    found = read_quantization({"text_config": {"quantization_config": AWQ}}, "config.json")
    assert found is not None
    assert found.source == "config.json: text_config: quantization_config"


def test_gptq() -> None:
    first = read(GPTQ)
    assert (first.form, first.bits, first.group_size, first.zero_offset) == ("gptq", 4, 128, 1)
    assert read(GPTQ | {"checkpoint_format": "gptq_v2"}).zero_offset == 0
    assert read(GPTQ | {"format": "gptq_v2"}).zero_offset == 0
    assert read(GPTQ | {"bits": 8, "group_size": -1}).group_size is None
    assert read(GPTQ | {"desc_act": True}).is_reordered


def test_awq() -> None:
    assert (read(AWQ).form, read(AWQ).bits, read(AWQ).group_size) == ("awq", 4, 64)


def test_compressed_tensors() -> None:
    packed = read(compressed_config("pack-quantized", 4, 128, symmetric=False))
    assert (packed.form, packed.bits, packed.group_size, packed.is_symmetric) == ("packed", 4, 128, False)
    integers = read(compressed_config("int-quantized", 8, None))
    assert (integers.form, integers.bits, integers.group_size, integers.is_symmetric) == ("integers", 8, None, True)
    mixed = compressed_config("mixed-precision", 4, 32)
    mixed["config_groups"]["group_0"]["format"] = "pack-quantized"
    assert read(mixed).form == "packed"
    mxfp4 = compressed_config("mxfp4-pack-quantized", 4, 32)
    mxfp4["config_groups"]["group_0"]["weights"]["type"] = "float"
    assert (read(mxfp4).form, read(mxfp4).group_size) == ("mxfp4", 32)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"quant_method": "torchao", "load_in_4bit": True}, "quantized with 'torchao', which cannot be read"),
        (
            {"quant_method": "quark", "weight_block_size": [128, 128]},
            "quantized with 'quark'.* gptq, awq, fp8, bitsandb",
        ),
        ({"quant_method": "mxfp4"}, "quantized with 'mxfp4'"),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "quantized with 'modelopt'"),
        ({"quant_method": "quark"}, "quantized with 'quark'"),
        ({"bits": 4}, "quantized with None"),
        (GPTQ | {"bits": 3}, "bits is 3; 4 and 8 can be read"),
        (GPTQ | {"group_size": 16}, "group_size is 16; multiples of 32"),
        (GPTQ | {"group_size": 0}, "group_size is 0"),
        (GPTQ | {"checkpoint_format": "marlin"}, "format is 'marlin'|checkpoint_format 'marlin' is not supported"),
        (GPTQ | {"dynamic": {"-:lm_head": {}}}, "dynamic is .* not supported"),
        (GPTQ | {"rotation": "hadamard"}, "rotation is 'hadamard'"),
        (GPTQ | {"pack_dtype": "int64"}, "pack_dtype is 'int64'"),
        (GPTQ | {"flux_capacitor": 1}, "the field 'flux_capacitor'"),
        (AWQ | {"version": "gemv"}, "version 'gemv' lays the weights out in another way"),
        (AWQ | {"bits": 8}, "bits is 8; 4 can be read"),
        (compressed_config("float-quantized", 8, None), "type is 'int', which is not supported; expected 'float'"),
        (compressed_config("nvfp4-pack-quantized", 4, 16), "the format 'nvfp4-pack-quantized' cannot be read"),
        (compressed_config("pack-quantized", 4, 128) | {"kv_cache_scheme": {"num_bits": 8}}, "kv_cache_scheme is"),
        (compressed_config("pack-quantized", 4, 128) | {"transform_config": {"r1": 1}}, "transform_config is"),
        (compressed_config("pack-quantized", 4, 128) | {"sparsity_config": {"format": "sparse-24"}}, "sparse weights"),
        (compressed_config("pack-quantized", 4, 128) | {"config_groups": {}}, "config_groups is missing or empty"),
        (compressed_config("pack-quantized", 3, 128), "num_bits is 3; 4 and 8 can be read"),
        (AWQ | {"group_size": None}, "group_size is missing"),
    ],
)
def test_what_is_not_supported_is_refused_by_name(config: dict[str, Any], message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        read(config)


def changed_group(**changes: Any) -> dict[str, Any]:
    config = compressed_config("pack-quantized", 4, 128)
    config["config_groups"]["group_0"] |= changes
    return config


def test_groups_of_compressed_tensors_that_cannot_be_followed_are_refused() -> None:
    with pytest.raises(CheckpointError, match="activations with fixed scales are not supported"):
        read(changed_group(input_activations={"num_bits": 8, "dynamic": False}))
    with pytest.raises(CheckpointError, match="output_activations is"):
        read(changed_group(output_activations={"num_bits": 8}))
    with pytest.raises(CheckpointError, match="group_0 does not quantize weights"):
        read(changed_group(weights=None))
    two = changed_group()
    two["config_groups"]["group_1"] = compressed_config("pack-quantized", 8, 128)["config_groups"]["group_0"]
    with pytest.raises(CheckpointError, match="its groups are quantized in different ways"):
        read(two)
    block = changed_group()
    block["config_groups"]["group_0"]["weights"]["strategy"] = "block"
    with pytest.raises(CheckpointError, match="the strategy 'block' is not supported"):
        read(block)
