"""GGUF metadata -> ModelSpec: the same value that the model's config.json would give, as far as a GGUF can say it.

A GGUF says some things by which tensors it holds: biases, a tied head (no `output.weight`), and rotary factors. Others
are fixed by the architecture's name (soft-cap defaults, SmolLM3's layers without positions, Gemma's scales), as in
llama.cpp, which defines the format. Keys below `{architecture}.` that no reader knows are refused.
Llama 3's stretching arrives as one divisor per frequency; it is kept as a longrope whose short and long factors agree.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from pelton.checkpoint.fields import Fields
from pelton.checkpoint.gguf.container import Container
from pelton.checkpoint.gguf.rope import read_rope
from pelton.checkpoint.model_spec import Experts, LayerSpec, ModelSpec, Rope
from pelton.checkpoint.rope import stretched_length
from pelton.checkpoint.spec_check import MAX_LAYERS, check_spec
from pelton.errors import CheckpointError, nearest

Spec = dict[str, Any]  # keyword arguments of ModelSpec

_INERT = frozenset({"tensor_data_layout", "rope.scaling.finetuned"})
_REQUIRED: Mapping[str, tuple[object, ...]] = {
    "attention.causal": (True,),
    "expert_gating_func": (1,),  # softmax
    "expert_weights_scale": (0.0, 1.0),
    "expert_shared_count": (),
    "expert_group_count": (0, 1),
    "interleave_moe_layer_step": (0, 1),
    "use_parallel_residual": (False,),
    "attention.clamp_kqv": (0.0,),
    "attention.max_alibi_bias": (0.0,),
}
_WEIGHT_DTYPES = {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}
_NO_ROPE_INTERVAL = 4  # SmolLM3


def read_spec(container: Container) -> ModelSpec:
    """The model in the file. Raises CheckpointError for an unknown architecture, or a missing or unknown key."""
    path = str(container.file.path)
    architecture = Fields(path, container.metadata).text("general.architecture")
    if architecture not in _READERS:
        raise CheckpointError(
            f"{path}: the architecture {architecture!r} is not supported. {nearest(architecture, _READERS)}"
        )
    prefix = f"{architecture}."
    values = {key.removeprefix(prefix): value for key, value in container.metadata.items() if key.startswith(prefix)}
    fields = Fields(f"{path}: {architecture}", {key: _plain(value) for key, value in values.items()})
    spec = ModelSpec(**_READERS[architecture](fields, container, architecture))
    for name, allowed in _REQUIRED.items():
        fields.require(name, *allowed)
    if spec.experts is None:
        for name in ("expert_count", "expert_used_count"):
            fields.require(name, 0)
    fields.check_all_read(_INERT)
    check_spec(spec, path)
    return spec


def _plain(value: Any) -> Any:
    """Arrays as lists where a layer or a section may have its own number; long ones are never read as numbers."""
    if isinstance(value, np.ndarray):
        return value[: MAX_LAYERS + 1].tolist()
    return value


def _uniform(fields: Fields, name: str, default: int | None = None) -> int:
    """A whole number, or the one that all layers of an array agree on."""
    value = fields.take(name)
    if isinstance(value, list):
        if len(set(value)) != 1:
            raise fields.error(f"{name} differs between layers ({value[:4]}...), which is not supported.")
        return Fields(fields.source, {name: value[0]}).integer(name)
    return fields.integer(name, default)


def _read_sizes(fields: Fields, container: Container, architecture: str) -> Spec:
    hidden_size, num_heads = fields.integer("embedding_length"), _uniform(fields, "attention.head_count")
    head_dim = fields.integer("attention.key_length", hidden_size // num_heads or None)
    if fields.integer("attention.value_length", head_dim) != head_dim:
        raise fields.error(f"attention.value_length differs from the key length {head_dim}, which is not supported.")
    tensors = container.tensors
    return {
        "architecture": architecture,
        "vocab_size": _count_rows(fields, container),
        "hidden_size": hidden_size,
        "intermediate_size": _uniform(fields, "feed_forward_length"),
        "num_heads": num_heads,
        "num_kv_heads": _uniform(fields, "attention.head_count_kv", num_heads),
        "head_dim": head_dim,
        "max_position": fields.integer("context_length"),
        "tied_embeddings": "output.weight" not in tensors,
        "qkv_bias": "blk.0.attn_q.bias" in tensors or "blk.0.attn_qkv.bias" in tensors,
        "out_bias": "blk.0.attn_output.bias" in tensors,
        "mlp_bias": "blk.0.ffn_down.bias" in tensors,
        "attention_scale": head_dim**-0.5,
        "weight_dtype": _get_weight_dtype(container),
    }


def _count_rows(fields: Fields, container: Container) -> int:
    """Rows of the embedding: what the logits are as long as. The tokenizer may know fewer tokens, never more."""
    embedding = container.tensors.get("token_embd.weight")
    if embedding is None or len(embedding.info.shape) != 2:
        raise fields.error("the tensor token_embd.weight is missing or not a matrix. The file holds no language model.")
    num_rows = embedding.info.shape[0]
    claimed = fields.integer("vocab_size", num_rows)
    if claimed != num_rows:
        raise fields.error(f"vocab_size is {claimed} and token_embd.weight has {num_rows} rows; they must agree.")
    return num_rows


def _get_weight_dtype(container: Container) -> str:
    """The dtype, or the GGUF scheme, that holds the most bytes."""
    totals: dict[str, int] = {}
    for tensor in container.tensors.values():
        totals[tensor.info.scheme] = totals.get(tensor.info.scheme, 0) + tensor.info.nbytes
    largest = max(totals, key=lambda scheme: totals[scheme])
    return _WEIGHT_DTYPES.get(largest, largest)


def _num_layers(fields: Fields) -> int:
    num_layers = fields.integer("block_count")
    if num_layers > MAX_LAYERS:
        raise fields.error(f"block_count is {num_layers}; at most {MAX_LAYERS} can be read.")
    return num_layers


def _read_decoder(fields: Fields, container: Container, architecture: str, *, theta: float | None) -> Spec:
    """Sizes, and the same full attention in every layer. `theta` None: the file must say it."""
    sizes = _read_sizes(fields, container, architecture)
    rope = read_rope(fields, container, head_dim=sizes["head_dim"], max_position=sizes["max_position"], theta=theta)
    sizes["max_position"] = stretched_length(sizes["max_position"], rope.scaling)
    return {
        **sizes,
        "norm_eps": fields.positive("attention.layer_norm_rms_epsilon"),
        "layers": (LayerSpec(rope=rope),) * _num_layers(fields),
    }


def _read_llama(fields: Fields, container: Container, architecture: str) -> Spec:
    """Llama and Mistral, whose window, if the file has one, is that of all layers."""
    spec = _read_decoder(fields, container, architecture, theta=10000.0)
    return {**spec, "layers": _windowed(spec["layers"], _read_window(fields), lambda _: True)}


def _read_llama_or_mixtral(fields: Fields, container: Container, architecture: str) -> Spec:
    """Mixtral calls itself "llama" and says how many experts it has."""
    spec = _read_llama(fields, container, architecture)
    if fields.integer("expert_count", 0, minimum=0) == 0:
        return spec
    sized = {**spec, "architecture": "mixtral"}
    return _with_experts(fields, container, sized, size=spec["intermediate_size"], normalised=True)


def _read_qwen2_moe(fields: Fields, container: Container, architecture: str) -> Spec:
    spec = {**_read_decoder(fields, container, architecture, theta=None), "architecture": "qwen2_moe"}
    shared_size = fields.integer("expert_shared_feed_forward_length")
    return _with_experts(fields, container, spec, normalised=False, shared_size=shared_size)


def _read_qwen3_moe(fields: Fields, container: Container, architecture: str) -> Spec:
    """Weights of experts are normalised in all models of this architecture; only Qwen2's are not."""
    spec = {**_read_decoder(fields, container, architecture, theta=None), "architecture": "qwen3_moe"}
    return _with_experts(fields, container, {**spec, "qk_norm": "head"}, normalised=True)


def _with_experts(
    fields: Fields, container: Container, spec: Spec, *, normalised: bool, size: int | None = None, shared_size: int = 0
) -> Spec:
    """`spec` with experts in the layers that have a router, as large as `size` unless the file says."""
    layers = tuple(
        replace(layer, has_experts=f"blk.{index}.ffn_gate_inp.weight" in container.tensors)
        for index, layer in enumerate(spec["layers"])
    )
    experts = Experts(
        num_experts=fields.integer("expert_count"),
        num_experts_per_token=fields.integer("expert_used_count"),
        intermediate_size=fields.integer("expert_feed_forward_length", size),
        normalised=fields.flag("expert_weights_norm", normalised),
        shared_intermediate_size=shared_size,
    )
    return {**spec, "layers": layers, "experts": experts}


def _read_qwen2(fields: Fields, container: Container, architecture: str) -> Spec:
    """Biases on q, k and v are part of the architecture: a file without them has lost them."""
    return {**_read_decoder(fields, container, architecture, theta=None), "qkv_bias": True}


def _read_qwen3(fields: Fields, container: Container, architecture: str) -> Spec:
    return {**_read_decoder(fields, container, architecture, theta=None), "qk_norm": "head"}


def _read_phi3(fields: Fields, container: Container, architecture: str) -> Spec:
    """The file may store a window of 0 for none."""
    spec = _read_decoder(fields, container, architecture, theta=10000.0)
    return {**spec, "layers": _windowed(spec["layers"], _read_window(fields), lambda _: True)}


def _read_olmo2(fields: Fields, container: Container, architecture: str) -> Spec:
    return {**_read_decoder(fields, container, architecture, theta=10000.0), "qk_norm": "full"}


def _read_granite(fields: Fields, container: Container, architecture: str) -> Spec:
    spec = _read_decoder(fields, container, architecture, theta=10000.0)
    return {
        **spec,
        "attention_scale": fields.number("attention.scale", spec["attention_scale"]),
        "embedding_multiplier": fields.number("embedding_scale", 1.0),
        "residual_multiplier": fields.number("residual_scale", 1.0),
        "logits_divisor": fields.positive("logit_scale", 1.0),
    }


def _read_smollm3(fields: Fields, container: Container, architecture: str) -> Spec:
    """Every fourth layer has no positions; a GGUF cannot say otherwise."""
    spec = _read_decoder(fields, container, architecture, theta=None)
    layers = tuple(
        LayerSpec(rope=None) if (index + 1) % _NO_ROPE_INTERVAL == 0 else layer
        for index, layer in enumerate(spec["layers"])
    )
    return {**spec, "layers": layers}


def _read_gemma(fields: Fields, spec: Spec, *, deepest: int) -> Spec:
    """What Gemma 2 and 3 share. The model with `deepest` layers, 27B of both, scales by the hidden size per head."""
    is_deepest = len(spec["layers"]) == deepest
    scaled_dim = spec["hidden_size"] // spec["num_heads"] if is_deepest else spec["head_dim"]
    return {
        **spec,
        "activation": "gelu_tanh",
        "attention_scale": fields.positive("attention.scale", scaled_dim**-0.5),
        "embedding_multiplier": spec["hidden_size"] ** 0.5,
    }


def _read_gemma2(fields: Fields, container: Container, architecture: str) -> Spec:
    spec = _read_gemma(fields, _read_decoder(fields, container, architecture, theta=10000.0), deepest=46)
    return {
        **spec,
        "attention_softcap": fields.number("attn_logit_softcapping") or None,
        "logits_softcap": fields.number("final_logit_softcapping") or None,
        "layers": _windowed(spec["layers"], _read_window(fields, 4096), lambda layer: layer % 2 == 0),
    }


def _read_gemma3(fields: Fields, container: Container, architecture: str) -> Spec:
    """Windowed layers have their own base and no scaling; `context_length` is the stretched length."""
    sizes = _read_sizes(fields, container, architecture)
    head_dim = sizes["head_dim"]
    rope = read_rope(fields, container, head_dim=head_dim, max_position=sizes["max_position"], theta=None)
    local = Rope(theta=fields.positive("rope.freq_base_swa", 10000.0), rotary_dim=rope.rotary_dim)
    window = fields.integer("attention.sliding_window")
    num_layers = _num_layers(fields)
    windowed = _read_pattern(fields, num_layers)
    layers = tuple(
        LayerSpec(rope=local, window=window) if is_windowed else LayerSpec(rope=rope) for is_windowed in windowed
    )
    spec = {**sizes, "norm_eps": fields.positive("attention.layer_norm_rms_epsilon"), "layers": layers}
    return {
        **_read_gemma(fields, spec, deepest=62),
        "qk_norm": "head",
        "logits_softcap": fields.nullable_number("final_logit_softcapping") or None,
        "attention_softcap": fields.nullable_number("attn_logit_softcapping") or None,
    }


def _read_pattern(fields: Fields, num_layers: int) -> list[bool]:
    """For each layer, whether it is windowed: a list, or a period whose last layer is not."""
    given = fields.take("attention.sliding_window_pattern")
    if isinstance(given, list):
        if len(given) != num_layers or not all(isinstance(item, bool) for item in given):
            raise fields.error(f"attention.sliding_window_pattern must be a period or {num_layers} booleans.")
        return given
    period = fields.integer("attention.sliding_window_pattern", 6)
    return [(layer + 1) % period != 0 for layer in range(num_layers)]


def _read_window(fields: Fields, default: int = 0) -> int | None:
    """The window of attention; files write 0 for none."""
    return fields.integer("attention.sliding_window", default, minimum=0) or None


def _windowed(
    layers: tuple[LayerSpec, ...], window: int | None, is_windowed: Callable[[int], bool]
) -> tuple[LayerSpec, ...]:
    return tuple(
        LayerSpec(rope=layer.rope, window=window if is_windowed(index) else None) for index, layer in enumerate(layers)
    )


def _read_gpt2(fields: Fields, container: Container, architecture: str) -> Spec:
    spec = _read_sizes(fields, container, architecture)
    positions = container.tensors.get("position_embd.weight")
    if positions is None or len(positions.info.shape) != 2:
        raise fields.error("the tensor position_embd.weight is missing or not a matrix; this architecture needs it.")
    return {
        **spec,
        "norm_eps": fields.positive("attention.layer_norm_epsilon"),
        "norm_style": "layer",
        "activation": "gelu_tanh",
        "learned_positions": positions.info.shape[0],
        "layers": (LayerSpec(rope=None),) * _num_layers(fields),
    }


_READERS: dict[str, Callable[[Fields, Container, str], Spec]] = {
    "llama": _read_llama_or_mixtral,
    "qwen2": _read_qwen2,
    "qwen3": _read_qwen3,
    "qwen2moe": _read_qwen2_moe,
    "qwen3moe": _read_qwen3_moe,
    "gemma2": _read_gemma2,
    "gemma3": _read_gemma3,
    "phi3": _read_phi3,
    "olmo2": _read_olmo2,
    "granite": _read_granite,
    "smollm3": _read_smollm3,
    "gpt2": _read_gpt2,
}
