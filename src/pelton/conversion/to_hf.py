"""A GGUF as a Hugging Face directory, and a directory with its weights in another container.

Quantized blocks become float32, which holds their numbers exactly, so that transformers loads what was there. The
blocks themselves, and the GGUF's own header, go into a side file that nobody else opens: the way back is bit for bit.
A GGUF that came from a directory carries its files, and gives them back if they still say what it says.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from typing import Any, Final

import numpy as np

from pelton.checkpoint.contract import Checkpoint
from pelton.checkpoint.gguf.checkpoint import GgufCheckpoint
from pelton.checkpoint.gguf.writer import GgufValue, encode_header
from pelton.checkpoint.hf.checkpoint import HfCheckpoint
from pelton.checkpoint.hf.spec import read_spec
from pelton.checkpoint.model_spec import ModelSpec
from pelton.checkpoint.outgoing import Outgoing
from pelton.checkpoint.scheme import DENSE, row_bytes
from pelton.checkpoint.strict_json import parse_object
from pelton.checkpoint.weight import Bytes, Tensor
from pelton.conversion.dense import as_dense, has_numbers, is_exact
from pelton.conversion.gguf_keys import make_keys
from pelton.conversion.hf_config import make_config
from pelton.conversion.hf_files import directory_of, is_adapter, list_left, read_carried
from pelton.conversion.hf_tokenizer_files import (
    encode_json,
    make_generation,
    make_ids,
    make_tokenizer_files,
    open_tokenizer,
)
from pelton.conversion.join_parts import join_parts
from pelton.conversion.pieces import Piece, is_rounded, list_pieces
from pelton.conversion.restore import HEADER
from pelton.conversion.result import Loss, Output, TensorRecord
from pelton.conversion.spec_loss import compare_specs
from pelton.conversion.to_gguf import DTYPES, FILE, TENSOR, TOKENIZER_JSON
from pelton.errors import CheckpointError
from pelton.loading.transform import plus_one
from pelton.tokenization.source import GgufTokenizerSource

_NAMES: Final = {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}
_SCHEMES: Final = {name: scheme for scheme, name in _NAMES.items()}


def make_hf(checkpoint: Checkpoint, *, scheme: str | None = None) -> Output:
    """What to write. `scheme`: F32, F16 or BF16 for all weights, in the place of what holds the source's exactly."""
    if isinstance(checkpoint, HfCheckpoint):
        return _copy_directory(checkpoint, scheme or "F32")
    if not isinstance(checkpoint, GgufCheckpoint):
        raise CheckpointError(f"{checkpoint.path}: cannot be written as a Hugging Face directory yet.")
    pieces, match = list_pieces(checkpoint, "hf")
    stored = _StoredSchemes(checkpoint, scheme)
    tensors, records, losses = [], [], list[Loss]()
    for piece in pieces:
        target, make = stored.find(piece)
        tensors.append(Outgoing(piece.name, piece.shape, target, make))
        cast = () if target == piece.scheme else (f"as {target}",)
        records.append(TensorRecord(piece.name, piece.sources, (*piece.steps, *cast), target))
        if target == scheme and is_rounded(piece, scheme):
            losses.append(Loss(f"tensor {piece.name}", f"{piece.scheme} is rounded to {target}", True))
    losses += [Loss(f"tensor {name}", why, False) for name, why in match.dropped]
    files, spec = _make_files(checkpoint, _name_dtype(tensors))
    if scheme is not None or b'"quantization_config"' in files["config.json"]:
        files["config.json"], notes = _as_dense_config(files["config.json"], tensors)
        losses += notes
    side = _make_side(checkpoint, {name for name, _ in match.dropped})
    if checkpoint.header is None:
        losses.append(Loss("parts", "the way back is one file with all tensors, not the parts", False))
    return Output(tensors=tensors, records=records, losses=losses, files=files, side=side, spec=spec)


class _StoredSchemes:
    """In which dense scheme each tensor is written."""

    def __init__(self, checkpoint: GgufCheckpoint, scheme: str | None) -> None:
        self._checkpoint = checkpoint
        self._wanted = scheme
        told = checkpoint.metadata.get(DTYPES)
        self._told: dict[str, Any] = parse_object(told.encode(), DTYPES) if isinstance(told, str) else {}
        is_dense = all(info.scheme in DENSE for info in checkpoint.tensors.values())
        self._main = _SCHEMES.get(checkpoint.spec.weight_dtype, "F32") if is_dense else "F32"

    def find(self, piece: Piece) -> tuple[str, Callable[[], Bytes]]:
        """The scheme that was asked for, that the source had once, or that holds the numbers; and the bytes in it."""
        kept = self._find_kept(piece)
        if kept is not None and self._wanted is None:
            return kept.scheme, lambda: kept.payload
        scheme = self._wanted or self._choose(piece)
        return scheme, lambda: as_dense(piece.read(), scheme).payload

    def _choose(self, piece: Piece) -> str:
        """As it was once or as most weights are, if that is exact."""
        told = self._told.get(piece.name)
        if isinstance(told, str) and told in DENSE and is_exact(piece.read(), told):
            return told
        if piece.scheme not in DENSE:
            return "F32"
        if piece.scheme == "F32" and self._main != "F32" and is_exact(piece.read(), self._main):
            return self._main
        return piece.scheme

    def _find_kept(self, piece: Piece) -> Tensor | None:
        """The bytes of a norm that cannot be computed back, if the norm of the GGUF is still made of them."""
        raw, told = self._checkpoint.metadata.get(TENSOR + piece.name), self._told.get(piece.name)
        if not isinstance(raw, np.ndarray) or raw.dtype != np.uint8 or not isinstance(told, str) or told not in DENSE:
            return None
        if "undo plus_one" not in piece.steps or len(raw) != row_bytes(told, piece.shape[-1]):
            return None
        kept = Tensor(piece.name, piece.shape, told, raw.view(np.uint8)[None, :])
        (name,) = piece.sources
        return kept if has_numbers(plus_one(kept), self._checkpoint.read(name)) else None


def _name_dtype(tensors: list[Outgoing]) -> str:
    """What config.json calls the weights: the widest of the types, so that whoever loads all as one rounds nothing."""
    schemes = {tensor.scheme for tensor in tensors}
    return _NAMES[schemes.pop()] if len(schemes) == 1 else "float32"


def _make_side(checkpoint: GgufCheckpoint, dropped: Container[str]) -> list[Outgoing]:
    """The header of the GGUF, and the bytes of every tensor that is not dense or has no place in the directory."""
    header = checkpoint.header
    side = [_bytes(HEADER, _join_header(checkpoint) if header is None else header)]
    for name, stored in checkpoint.stored.items():
        read = checkpoint.tensors.get(name)
        if read is None or not {read.scheme, stored.info.scheme} <= DENSE or name in dropped or read != stored.info:
            rows = stored.file.rows(stored.offset, 1, stored.info.nbytes)
            side.append(Outgoing(name, rows.shape, "U8", _give(rows)))
    return side


def _join_header(checkpoint: GgufCheckpoint) -> Bytes:
    """The header that the parts of a split model would have as one file."""
    joined = join_parts(checkpoint, None)
    return np.frombuffer(encode_header(checkpoint.path, joined.metadata, joined.tensors), np.uint8)


def _bytes(name: str, raw: Bytes) -> Outgoing:
    return Outgoing(name, raw.shape, "U8", _give(raw[None, :]))


def _give(rows: Bytes) -> Callable[[], Bytes]:
    return lambda: rows


def _make_files(checkpoint: GgufCheckpoint, dtype: str) -> tuple[dict[str, bytes], ModelSpec | None]:
    """Configuration, tokenizer and defaults: those that the GGUF carries, where they agree with it, or new ones.

    The specification is that of the carried configuration, where it says more than the keys can.
    """
    tokenizer = open_tokenizer(checkpoint)
    carried = dict(_read_carried(checkpoint))
    source = checkpoint.tokenizer_source if tokenizer is not None else None
    files: dict[str, bytes] = {}
    if tokenizer is not None and isinstance(source, GgufTokenizerSource):
        files |= make_tokenizer_files(source, tokenizer, checkpoint.spec.max_position)
    generation = make_generation(checkpoint, tokenizer)
    if generation:
        files["generation_config.json"] = encode_json(generation)
    if not carried:
        config = make_config(checkpoint.spec, dtype=dtype, ids=make_ids(checkpoint, tokenizer))
        return {**files, "config.json": encode_json(config)}, None
    spec = read_spec(parse_object(carried["config.json"], "the carried config.json"), source="the carried config.json")
    unequal = compare_specs(spec, checkpoint.spec)
    if unequal and not _are_keys_of(checkpoint, spec):
        told = "; ".join(f"{each.field}: {each.source} carried, {each.target} in the keys" for each in unequal[:3])
        raise CheckpointError(
            f"{checkpoint.path}: its keys were changed since it was made: {told}. Remove the key {FILE}config.json, "
            "and the keys are what counts."
        )
    texts = carried if "tokenizer.json" in carried or tokenizer is None else {**files, **carried}
    return texts, spec if unequal else None


def _are_keys_of(checkpoint: GgufCheckpoint, spec: ModelSpec) -> bool:
    """Whether the keys are those that a GGUF of `spec` gets: then what differs is what keys cannot say."""
    prefix = f"{checkpoint.metadata['general.architecture']}."
    found = {key: value for key, value in checkpoint.metadata.items() if key.startswith(prefix)}
    made = {key: value for key, value in make_keys(spec).items() if key.startswith(prefix)}
    return found.keys() == made.keys() and all(_is_same(found[key], made[key]) for key in made)


def _is_same(stored: object, made: GgufValue) -> bool:
    """Whether a key's value is what the writer makes of `made`: floats are float32 in the file."""
    if isinstance(made, np.ndarray):
        return isinstance(stored, np.ndarray | list) and np.array_equal(np.asarray(stored), made)
    if isinstance(made, float):
        return isinstance(stored, float) and np.float32(stored) == np.float32(made)
    return bool(stored == made)


def _as_dense_config(raw: bytes, tensors: list[Outgoing]) -> tuple[bytes, list[Loss]]:
    """The configuration of weights that are dense now, in the types of `tensors`."""
    config = parse_object(raw, "config.json")
    losses = []
    if config.pop("quantization_config", None) is not None:
        losses.append(Loss("quantization_config", "the weights are no longer quantized", False))
    config.pop("dtype", None)
    return encode_json({**config, "torch_dtype": _name_dtype(tensors)}), losses


def _read_carried(checkpoint: GgufCheckpoint) -> Iterator[tuple[str, bytes]]:
    if FILE + "config.json" not in checkpoint.metadata:
        return
    for key, value in checkpoint.metadata.items():
        name = "tokenizer.json" if key == TOKENIZER_JSON else key.removeprefix(FILE)
        if key != TOKENIZER_JSON and name == key:
            continue
        if isinstance(value, str):
            yield name, value.encode()
        elif isinstance(value, np.ndarray) and value.dtype == np.uint8:
            yield name, value.tobytes()
        else:
            raise CheckpointError(f"{checkpoint.path}: {key} is neither text nor bytes.")


def _copy_directory(checkpoint: HfCheckpoint, scheme: str) -> Output:
    """The same names, the same files; all weights as `scheme`."""
    directory = directory_of(checkpoint.path)
    carried = read_carried(directory)
    tensors, records, losses = [], [], list[Loss]()
    for name, info in checkpoint.tensors.items():
        steps = () if scheme == info.scheme else (f"as {scheme}",)
        records.append(TensorRecord(name, (name,), steps, scheme))
        tensors.append(Outgoing(name, info.shape, scheme, _read_as(checkpoint, name, scheme)))
        if scheme != info.scheme and not is_exact(checkpoint.read(name), scheme):
            losses.append(Loss(f"tensor {name}", f"{info.scheme} is rounded to {scheme}", True))
    carried["config.json"], notes = _as_dense_config(carried["config.json"], tensors)
    losses += notes
    left = list_left(directory, carried, [file.path for file in checkpoint.files])
    losses += [Loss(f"file {name}", why, is_adapter(name)) for name, why in left.items()]
    return Output(tensors=tensors, records=records, losses=losses, files=carried)


def _read_as(checkpoint: Checkpoint, name: str, scheme: str) -> Callable[[], Bytes]:
    return lambda: as_dense(checkpoint.read(name), scheme).payload
