"""`quantization_config` of a config.json -> Quantization, or a refusal that names what is not supported.

Read are gptq, awq, fp8, bitsandbytes, compressed-tensors. As everywhere in config.json, a field is consumed, inert or
refused; what the tensors say is compared with it when they are found. How activations are to be quantized is not
followed: weights are exact, and activations are what this program's kernels take (docs/reference/weight-formats.md).
Source: GPTQModel, AutoAWQ and compressed-tensors, which write these fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pelton.checkpoint.fields import Fields
from pelton.errors import nearest

Form = Literal["gptq", "awq", "packed", "integers", "mxfp4", "fp8", "bnb4", "bnb8"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantization:
    """How every quantized linear of a checkpoint is stored."""

    source: str  # for messages
    form: Form
    bits: int
    group_size: int | None  # None: one group for each row
    is_symmetric: bool = False
    is_reordered: bool = False  # gptq: the groups may not be runs of neighbouring inputs; g_idx tells
    zero_offset: int = 0  # gptq: what is added to a stored zero point
    block: tuple[int, int] | None = None  # fp8: rows and columns that share a scale; None: the tensor or a channel


# What these libraries note about how they searched for the integers, and hints for their own kernels.
_GPTQ_INERT = frozenset(
    [
        "damp_percent",
        "damp_auto_increment",
        "true_sequential",
        "static_groups",
        "model_name_or_path",
        "model_file_base_name",
        "dataset",
        "tokenizer",
        "batch_size",
        "pad_token_id",
        "max_input_length",
        "module_name_preceding_first_block",
        "block_name_to_quantize",
        "modules_in_block_to_quantize",
        "model_seqlen",
        "use_cuda_fp16",
        "use_exllama",
        "disable_exllama",
        "exllama_config",
        "backend",
        "device",
        "cache_block_outputs",
        "cache_examples_on_gpu",
        "meta",
        "lm_head",
        "sym",
        "act_group_aware",
        "mse",
        "is_marlin_format",
        "quantizer",
        "hyb_act",
        "parallel_packing",
        "offload_to_disk",
        "offload_to_disk_path",
        "version",
    ]
)
_AWQ_INERT = frozenset(
    [
        "zero_point",
        "modules_to_not_convert",
        "exllama_config",
        "do_fuse",
        "fuse_max_seq_len",
        "modules_to_fuse",
        "backend",
    ]
)
_COMPRESSED_INERT = frozenset(
    [
        "quantization_status",
        "ignore",
        "global_compression_ratio",
        "version",
        "quantization_method",
        "compression_config",
    ]
)
# How the library computes with them, and which modules it left alone.
_BITSANDBYTES_INERT = frozenset(
    [
        "_load_in_4bit",
        "_load_in_8bit",
        "bnb_4bit_compute_dtype",
        "bnb_4bit_quant_storage",
        "bnb_4bit_use_double_quant",
        "llm_int8_enable_fp32_cpu_offload",
        "llm_int8_has_fp16_weight",
        "llm_int8_skip_modules",
        "llm_int8_threshold",
    ]
)
_FP8_INERT = frozenset(["modules_to_not_convert", "ignored_layers", "kv_cache_scheme", "scale_fmt"])
_WEIGHTS_INERT = frozenset(
    ["observer", "observer_kwargs", "actorder", "strategy", "block_structure", "scale_dtype", "zp_dtype"]
)


def read_quantization(config: Mapping[str, Any], source: str) -> Quantization | None:
    """How the weights that `config` describes are quantized; None if they are not. Raises CheckpointError."""
    nested = config.get("text_config")
    for where, values in ((source, config), (f"{source}: text_config", nested)):
        if isinstance(values, Mapping) and values.get("quantization_config") is not None:
            fields = Fields(where, values).mapping("quantization_config")
            assert fields is not None, "the field is not null"
            return _read(fields)
    return None


def _read(fields: Fields) -> Quantization:
    method = fields.take("quant_method")
    reader = _READERS.get(method) if isinstance(method, str) else None
    if reader is None:
        raise fields.error(
            f"the weights are quantized with {method!r}, which cannot be read. Use a checkpoint quantized with gptq, "
            "awq, fp8, bitsandbytes or compressed-tensors, the original weights, or a GGUF file."
        )
    return reader(fields)


def _read_gptq(fields: Fields) -> Quantization:
    versions = {"gptq": 1, "gptq_v2": 0}
    fields.require("pack_dtype", "int32")
    fields.require("dynamic", {}, [])
    fields.require("rotation", "")
    fields.require("adapter")
    fields.require("quant_format", "gptq", "gptq_v2")
    spelling = "format" if fields.has("format") and not fields.has("checkpoint_format") else "checkpoint_format"
    fields.require("format", *versions)
    quantization = Quantization(
        source=fields.source,
        form="gptq",
        bits=_read_bits(fields, "bits", (4, 8)),
        group_size=_read_group_size(fields),
        is_reordered=fields.flag("desc_act", False),
        zero_offset=fields.choice(spelling, versions, "gptq"),
    )
    fields.check_all_read(_GPTQ_INERT)
    return quantization


def _read_awq(fields: Fields) -> Quantization:
    version = fields.text("version", "gemm")
    if version.lower() != "gemm":
        raise fields.error(f"version {version!r} lays the weights out in another way; only 'gemm' can be read.")
    quantization = Quantization(
        source=fields.source, form="awq", bits=_read_bits(fields, "bits", (4,)), group_size=_read_group_size(fields)
    )
    fields.check_all_read(_AWQ_INERT)
    return quantization


def _read_compressed(fields: Fields) -> Quantization:
    groups = fields.mapping("config_groups")
    names = [] if groups is None else groups.names()
    fields.require("kv_cache_scheme")
    fields.require("transform_config", {})
    sparsity = fields.mapping("sparsity_config")
    if sparsity is not None and sparsity.text("format", "dense") != "dense":
        raise sparsity.error("sparse weights cannot be read. Use a checkpoint that is only quantized.")
    default = fields.take("format")
    fields.check_all_read(_COMPRESSED_INERT)
    if groups is None or not names:
        raise fields.error("config_groups is missing or empty, so nothing says how the weights are quantized.")
    found = [_read_group(groups, name, default) for name in names]
    if any(other != found[0] for other in found[1:]):
        raise fields.error("its groups are quantized in different ways, which cannot be read. Use one with one way.")
    return found[0]


def _read_group(groups: Fields, name: str, default: Any) -> Quantization:
    group = groups.mapping(name)
    weights = None if group is None else group.mapping("weights")
    if group is None or weights is None:
        raise groups.error(f"{name} does not quantize weights, which is not supported.")
    form = group.take("format") or default
    if form not in _COMPRESSED_FORMS:
        raise group.error(f"the format {form!r} cannot be read. {nearest(str(form), _COMPRESSED_FORMS)}")
    activations = group.mapping("input_activations")
    is_followed = form not in _FLOAT_FORMATS  # 8-bit floats become float32, whatever their inputs were to be
    if activations is not None and activations.take("dynamic") is not True and is_followed:
        raise activations.error("activations with fixed scales are not supported; only dynamic ones are.")
    group.require("output_activations")
    group.check_all_read({"targets"})
    kind, all_bits = _COMPRESSED_FORMS[form]
    weights.require("type", "float" if kind in ("mxfp4", "fp8") else "int")
    weights.require("dynamic", False)
    bits = _read_bits(weights, "num_bits", all_bits)
    strategy = weights.take("strategy")
    block = _read_block(weights, "block_structure") if strategy == "block" and kind == "fp8" else None
    has_groups = strategy == "group" or (strategy is None and weights.take("group_size") is not None)
    if (not has_groups and strategy not in (None, "channel", "tensor") and block is None) or (
        has_groups and kind == "fp8"
    ):
        raise weights.error(f"the strategy {strategy!r} is not supported; 'group', 'channel' and 'tensor' are.")
    quantization = Quantization(
        source=groups.source,
        form=kind,
        bits=bits,
        group_size=_read_group_size(weights) if has_groups else None,
        is_symmetric=weights.flag("symmetric", True),
        block=block,
    )
    weights.check_all_read(_WEIGHTS_INERT | {"group_size"})
    return quantization


def _read_bits(fields: Fields, name: str, supported: tuple[int, ...]) -> int:
    bits = fields.integer(name)
    if bits not in supported:
        names = " and ".join(map(str, supported))
        raise fields.error(
            f"{name} is {bits}; {names} can be read. Use a checkpoint with another width, or a GGUF file."
        )
    return bits


def _read_group_size(fields: Fields) -> int | None:
    """None for -1, which stands for the whole row. Tiles have 32 elements, so groups are whole numbers of them."""
    size = fields.integer("group_size", minimum=-1)
    if size == -1:
        return None
    if size < 1 or size % 32:
        raise fields.error(f"group_size is {size}; multiples of 32, and -1 for whole rows, can be read.")
    return size


def _read_fp8(fields: Fields) -> Quantization:
    """Checkpoints of DeepSeek V3 and Qwen3-FP8, and those of one scale for each tensor."""
    fields.require("fmt", "e4m3")
    fields.choice("activation_scheme", {"dynamic": None, "static": None}, "dynamic")
    block = _read_block(fields, "weight_block_size")
    fields.check_all_read(_FP8_INERT)
    return Quantization(source=fields.source, form="fp8", bits=8, group_size=None, block=block)


def _read_block(fields: Fields, name: str) -> tuple[int, int] | None:
    """Rows and columns of a block. They are never taken from shapes: blocks at the edges are smaller."""
    sizes = fields.numbers(name)
    if sizes is None:
        return None
    if len(sizes) != 2 or not all(size >= 1 and size == int(size) for size in sizes):
        raise fields.error(f"{name} is {list(sizes)}; expected [rows, columns].")
    return int(sizes[0]), int(sizes[1])


def _read_bitsandbytes(fields: Fields) -> Quantization:
    """4 or 8 bits; what the tensors say of themselves decides the rest."""
    four, eight = fields.flag("load_in_4bit", False), fields.flag("load_in_8bit", False)
    if four == eight:
        raise fields.error("load_in_4bit and load_in_8bit: one of them must be true.")
    fields.require("bnb_4bit_quant_type", "nf4", "fp4")
    fields.check_all_read(_BITSANDBYTES_INERT)
    return Quantization(source=fields.source, form="bnb4" if four else "bnb8", bits=4 if four else 8, group_size=None)


_READERS = {
    "gptq": _read_gptq,
    "awq": _read_awq,
    "fp8": _read_fp8,
    "bitsandbytes": _read_bitsandbytes,
    "compressed-tensors": _read_compressed,
}
_FLOAT_FORMATS = ("float-quantized", "naive-quantized")
_COMPRESSED_FORMS: dict[str, tuple[Form, tuple[int, ...]]] = {
    "pack-quantized": ("packed", (4, 8)),
    "int-quantized": ("integers", (4, 8)),
    "mxfp4-pack-quantized": ("mxfp4", (4,)),
    "float-quantized": ("fp8", (8,)),
    "naive-quantized": ("fp8", (8,)),
}
