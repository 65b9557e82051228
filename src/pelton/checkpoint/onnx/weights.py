"""The weights of a model.onnx under the names that Hugging Face gives them.

Three layouts are known. Our own says in its metadata where each tensor lies. Optimum's keeps the names of parameters,
but writes the matrices of linears transposed and under numbers; the node that multiplies with one is called after its
module. onnxruntime-genai's has names of its own and may have q, k and v in one matrix. Transposed matrices are views,
whose rows are put in order when somebody reads them. A weight that nothing explains is an error.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from pelton.checkpoint.contract import TensorInfo
from pelton.checkpoint.fields import short
from pelton.checkpoint.mapped_file import MappedFile
from pelton.checkpoint.onnx.model_file import ModelFile, read_model_file
from pelton.checkpoint.onnx.place import Places
from pelton.checkpoint.placed_tensor import PlacedTensor
from pelton.checkpoint.scheme import SCHEMES
from pelton.checkpoint.strict_json import load_object, parse_object
from pelton.errors import CheckpointError

SUFFIXES: Final = (".onnx",)
TENSORS_KEY: Final = "pelton.tensors"  # JSON: name -> [initializer, first row, shape, whether it lies transposed]
_NAME = re.compile(r"[A-Za-z_]\w*(\.\w+)*")
_PARAMETER = re.compile(r"[A-Za-z_]\w*(\.\w+)*\.(weight|bias)")
_PACKED_OPS: Final = ("MatMulNBits", "MatMulBnb4", "MatMulFpQ4", "MoE", "QMoE", "DequantizeLinear", "QLinearMatMul")
_USERS: Final = ("MatMul", "Gemm", "Gather")
_GENAI: Final = (
    (re.compile(r"model\.layers\.\d+\.final_norm_layernorm\.weight"), "model.norm.weight"),
    (re.compile(r"(model\.layers\.\d+)\.attn\.([qk]_norm)\.layernorm\.weight"), r"\1.self_attn.\2.weight"),
    (re.compile(r"(model\.layers\.\d+)\.attn\.(\w+_proj)\.(?:MatMul|Add)\.(weight|bias)"), r"\1.self_attn.\2.\3"),
    (re.compile(r"(model\.layers\.\d+\.mlp\.\w+_proj|lm_head)\.(?:MatMul|Add)\.(weight|bias)"), r"\1.\2"),
)
_PLAIN_FAMILIES: Final = (
    "llama",
    "mistral",
    "qwen2",
    "qwen3",
    "smollm3",
)  # with norms that are stored as they multiply


def read_onnx(path: Path) -> dict[str, PlacedTensor]:
    """All weights of the file, in its order. Raises CheckpointError; reads no numbers."""
    file = MappedFile(path)
    model = read_model_file(file)
    places = Places(file)
    told = model.metadata.get(TENSORS_KEY)
    if told is not None:
        return _read_own(path, model, places, parse_object(told.encode(), f"{path}: {TENSORS_KEY}"))
    packed = next((node for node in model.nodes if node.op in _PACKED_OPS), None)
    if packed is not None:
        raise CheckpointError(
            f"{path}: node {short(packed.name)} is a {packed.op}, whose weights are packed for onnxruntime and not "
            "read here. Use the model that it was made from, or an export in float."
        )
    is_genai = any(".MatMul.weight" in name for name in model.initializers)
    found = dict(_read_genai(path, model, places) if is_genai else _read_optimum(path, model, places))
    if not found:
        raise CheckpointError(f"{path}: has no parameter of a model by name. It is no export of a language model.")
    return found


def _read_own(path: Path, model: ModelFile, places: Places, told: Mapping[str, Any]) -> dict[str, PlacedTensor]:
    """Every tensor is rows of a weight; together they are all rows of all weights."""
    found: dict[str, PlacedTensor] = {}
    rows: dict[str, list[tuple[int, int]]] = {}
    for name, entry in told.items():
        where = f"{path}: {TENSORS_KEY}: {short(name)}"
        if not _NAME.fullmatch(name) or not isinstance(entry, list) or len(entry) != 4:
            raise CheckpointError(f"{where}: {short(entry)}; expected [initializer, first row, shape, is transposed].")
        weight, first, shape, is_transposed = entry
        initializer = model.initializers.get(weight) if isinstance(weight, str) else None
        if initializer is None or not 1 <= len(initializer.dims) <= 2 or 0 in initializer.dims:
            raise CheckpointError(f"{where}: names {short(weight)}, which is no weight of the graph.")
        if not _is_shape(shape) or type(first) is not int or type(is_transposed) is not bool:
            raise CheckpointError(f"{where}: {short(entry)}; expected [initializer, first row, shape, is transposed].")
        count, rest = divmod(math.prod(shape), math.prod(initializer.dims[1:]))
        if rest or not 0 <= first <= first + count <= initializer.dims[0]:
            raise CheckpointError(
                f"{where}: {short(shape)} from row {first} is not in {short(list(initializer.dims))}."
            )
        found[name] = _cut(places.place(initializer), name, first, count, tuple(shape))
        if is_transposed:
            if len(shape) != 2 or shape[0] != initializer.dims[-1]:
                raise CheckpointError(f"{where}: {short(shape)} is not {short(list(initializer.dims))} transposed.")
            found[name] = replace(found[name], strides=(1, shape[0]))
        rows.setdefault(weight, []).append((first, count))
    _check_rows(path, model, rows)
    return found


def _is_shape(shape: Any) -> bool:
    return isinstance(shape, list) and len(shape) <= 4 and all(type(each) is int and each > 0 for each in shape)


def _check_rows(path: Path, model: ModelFile, rows: Mapping[str, list[tuple[int, int]]]) -> None:
    for name, initializer in model.initializers.items():
        if name not in rows and initializer.external is None:
            continue  # a constant of the graph
        position = 0
        for first, count in sorted(rows.get(name, [])):
            if first != position:
                break
            position += count
        if position != initializer.dims[0]:
            raise CheckpointError(f"{path}: {TENSORS_KEY}: not each row of {short(name)} is in exactly one tensor.")


def _cut(whole: PlacedTensor, name: str, first: int, count: int, shape: tuple[int, ...]) -> PlacedTensor:
    """Rows of the first axis, under another name and as another shape."""
    row_bytes = whole.info.nbytes // whole.info.shape[0]
    cut = TensorInfo(name, shape, whole.info.scheme, count * row_bytes)
    return replace(whole, info=cut, offset=whole.offset + first * row_bytes)


def _transposed(placed: PlacedTensor) -> PlacedTensor:
    """The matrix with its axes exchanged; the bytes stay where they are."""
    num_rows, num_columns = placed.info.shape
    return replace(placed, info=replace(placed.info, shape=(num_columns, num_rows)), strides=(1, num_columns))


def _read_optimum(path: Path, model: ModelFile, places: Places) -> Iterator[tuple[str, PlacedTensor]]:
    claimed = {name for name in model.initializers if _PARAMETER.fullmatch(name)}
    for name, initializer in model.initializers.items():
        if name in claimed:
            yield name, places.place(initializer)
    made: dict[str, str] = {}
    for node in model.nodes:
        if node.op not in _USERS:
            continue
        for used in node.inputs:
            if used in claimed or used not in model.initializers:
                continue
            placed = places.place(model.initializers[used])
            if placed.info.scheme not in ("F32", "F16", "BF16", "F64") or len(placed.info.shape) < 2:
                continue
            name = ".".join(part for part in node.name.split("/")[:-1] if part) + ".weight"
            is_linear = node.op == "MatMul" and used == node.inputs[-1] and node.name.startswith("/")
            if not is_linear or len(placed.info.shape) != 2 or name in claimed or made.get(name, used) != used:
                raise CheckpointError(
                    f"{path}: node {short(node.name)} uses {short(used)}, and its name does not say which parameter "
                    "that is. Use the model that it was exported from."
                )
            if name not in made:
                made[name] = used
                yield name, _transposed(replace(placed, info=replace(placed.info, name=name)))


def _read_genai(path: Path, model: ModelFile, places: Places) -> Iterator[tuple[str, PlacedTensor]]:
    family = load_object(path.parent / "config.json").get("model_type")
    if family not in _PLAIN_FAMILIES:
        raise CheckpointError(
            f"{path}: onnxruntime-genai changes weights of {short(family)} when it exports; known without changes: "
            f"{', '.join(_PLAIN_FAMILIES)}. Use the model that it was made from."
        )
    heads = {
        (node.integers.get("num_heads", 0), node.integers.get("kv_num_heads", 0))
        for node in model.nodes
        if node.op in ("GroupQueryAttention", "MultiHeadAttention")
    }
    for initializer in model.initializers.values():
        if not _PARAMETER.fullmatch(initializer.name):
            continue
        name = _rename(initializer.name)
        placed = places.place(initializer)
        if ".MatMul.weight" in initializer.name:
            if len(placed.info.shape) != 2:
                raise CheckpointError(f"{path}: {short(initializer.name)} is no matrix.")
            placed = _transposed(placed)
        if ".qkv_proj." in name:
            yield from _split_qkv(path, name, placed, heads)
        else:
            yield name, replace(placed, info=replace(placed.info, name=name))


def _rename(name: str) -> str:
    """What Hugging Face calls a parameter of onnxruntime-genai.

    >>> _rename("model.layers.0.attn.q_proj.MatMul.weight"), _rename("model.layers.9.final_norm_layernorm.weight")
    ('model.layers.0.self_attn.q_proj.weight', 'model.norm.weight')
    """
    for pattern, form in _GENAI:
        if pattern.fullmatch(name):
            return pattern.sub(form, name)
    return name


def _split_qkv(
    path: Path, name: str, placed: PlacedTensor, heads: set[tuple[int, int]]
) -> Iterator[tuple[str, PlacedTensor]]:
    """q, k and v of a matrix [q + k + v, in], a transposed view, or of a bias. The attention nodes count the heads."""
    info = placed.info
    num_heads, num_kv_heads = next(iter(heads)) if len(heads) == 1 else (0, 0)
    total = num_heads + 2 * num_kv_heads
    if num_heads < 1 or num_kv_heads < 1 or info.shape[0] % total:
        raise CheckpointError(f"{path}: {short(name)} has {info.shape[0]} rows, and no heads are told that fit.")
    itemsize = SCHEMES[info.scheme].block_bytes
    head_dim, first = info.shape[0] // total, 0
    for part, count in zip("qkv", (num_heads, num_kv_heads, num_kv_heads), strict=True):
        shape = (count * head_dim, *info.shape[1:])
        target = name.replace("qkv_proj", f"{part}_proj")
        nbytes = info.nbytes * count // total
        cut = TensorInfo(target, shape, info.scheme, nbytes)
        yield target, replace(placed, info=cut, offset=placed.offset + first * itemsize)
        first += count * head_dim
