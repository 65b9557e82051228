"""A Hugging Face directory as a GGUF: tensors by way of the plan, metadata of the specification, files verbatim.

As all writers of the format do, vectors and routers are float32. What this rounds, what the keys cannot say and the
source's own files travel in keys that begin with `pelton.`, which other readers skip, so that the way back is exact.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from pelton.checkpoint.contract import Checkpoint
from pelton.checkpoint.gguf.checkpoint import GgufCheckpoint
from pelton.checkpoint.gguf.tokenizer_source import END_IDS
from pelton.checkpoint.gguf.writer import GgufValue
from pelton.checkpoint.hf.checkpoint import HfCheckpoint
from pelton.checkpoint.outgoing import Outgoing
from pelton.checkpoint.scheme import BY_GGUF_ID, DENSE, GROUPED, get_scheme
from pelton.checkpoint.weight import Tensor
from pelton.conversion.blocks import as_blocks, find_blocks
from pelton.conversion.dense import as_dense
from pelton.conversion.gguf_keys import make_factors, make_keys
from pelton.conversion.gguf_vocabulary import make_vocabulary
from pelton.conversion.hf_files import directory_of, is_adapter, list_left, read_carried
from pelton.conversion.hf_tokenizer_files import list_ends, open_tokenizer
from pelton.conversion.inverse import minus_one
from pelton.conversion.join_parts import join_parts
from pelton.conversion.pieces import Piece, is_rounded, list_pieces
from pelton.conversion.result import Loss, Output, TensorRecord
from pelton.errors import CheckpointError
from pelton.loading.transform import plus_one
from pelton.tokenization.source import GgufTokenizerSource, HfTokenizerSource

FILE: Final = "pelton.hf.file."  # and a name: the file's bytes
TENSOR: Final = "pelton.hf.tensor."  # and a Hugging Face name: the stored bytes, where they cannot be computed back
DTYPES: Final = "pelton.hf.dtypes"  # JSON: schemes by Hugging Face name, where the target has another
TOKENIZER_JSON: Final = "tokenizer.huggingface.json"  # the specification's key for it
_FLOAT32: Final = ("ffn_gate_inp.weight", "ffn_gate_inp_shexp.weight", "position_embd.weight")
_FILE_TYPES: Final = {"F32": 0, "F16": 1, "Q4_0": 2, "Q4_1": 3, "Q8_0": 7, "Q5_0": 8, "Q5_1": 9, "Q6_K": 18, "BF16": 32}
_SAMPLING: Final = {
    "temperature": "temp",
    "top_p": "top_p",
    "top_k": "top_k",
    "min_p": "min_p",
    "repetition_penalty": "penalty_repeat",
}


def make_gguf(checkpoint: Checkpoint, *, scheme: str | None = None) -> Output:
    """What to write. `scheme`: F32, F16 or BF16 for matrices, in the place of what the source has."""
    if isinstance(checkpoint, GgufCheckpoint):
        return join_parts(checkpoint, scheme)
    if not isinstance(checkpoint, HfCheckpoint):
        raise CheckpointError(f"{checkpoint.path}: cannot be written as a GGUF; expected a Hugging Face directory.")
    pieces, match = list_pieces(checkpoint, "gguf")
    tensors, records, own, losses = [], [], dict[str, GgufValue](), list[Loss]()
    dtypes: dict[str, str] = {}
    for piece in pieces:
        target = find_scheme(piece, scheme)
        tensors.append(Outgoing(piece.name, piece.shape, target, _maker(piece, target)))
        cast = () if target == piece.scheme else (f"as {target}",)
        records.append(TensorRecord(piece.name, piece.sources, (*piece.steps, *cast), target))
        for name in piece.sources:
            stored = checkpoint.tensors[name].scheme
            if stored in DENSE and stored != target == "F32":
                dtypes[name] = stored
        if target == scheme and is_rounded(piece, scheme):
            losses.append(Loss(f"tensor {piece.name}", f"{piece.scheme} is rounded to {scheme}", True))
    for name, stored_tensor in _find_rounded(checkpoint, pieces):
        own[TENSOR + name] = _bytes(stored_tensor)
        dtypes[name] = stored_tensor.scheme
    if dtypes:
        own[DTYPES] = json.dumps(dtypes)
    factors = make_factors(checkpoint.spec)
    records += [TensorRecord(factor.name, (), ("computed from the configuration",), "F32") for factor in factors]
    directory = directory_of(checkpoint.path)
    carried = read_carried(directory)
    left = list_left(directory, carried, [file.path for file in checkpoint.files])
    own |= {_file_key(name): _value(raw) for name, raw in carried.items()}
    losses += [Loss(f"tensor {name}", why, False) for name, why in match.dropped]
    losses += [Loss(f"file {name}", why, is_adapter(name)) for name, why in left.items()]
    if any(info.scheme not in DENSE for info in checkpoint.tensors.values()):
        losses.append(Loss("quantization_config", "the same numbers in another form; the way back is dense", False))
    vocabulary, texts = _make_texts(checkpoint)
    losses += _list_text_losses(checkpoint, vocabulary)
    tensors += factors
    metadata = {**make_keys(checkpoint.spec), **_general(checkpoint, tensors), **texts, **own}
    return Output(tensors=tensors, records=records, losses=losses, metadata=metadata)


def find_scheme(piece: Piece, scheme: str | None) -> str:
    """How a GGUF stores the piece: vectors and routers as float32, matrices as they are or as `scheme`."""
    known = get_scheme(piece.scheme)
    if piece.scheme in DENSE and (len(piece.shape) == 1 or piece.name.endswith(_FLOAT32)):
        return "F32"
    if scheme is not None:
        return scheme
    if known.gguf_id in BY_GGUF_ID:
        return piece.scheme
    blocks = find_blocks(piece.read()) if piece.scheme in GROUPED else None
    return blocks or "F32"  # which holds the numbers of all others


def _maker(piece: Piece, scheme: str) -> Any:
    if scheme in DENSE:
        return lambda: as_dense(piece.read(), scheme).payload
    return lambda: piece.read().payload if scheme == piece.scheme else as_blocks(piece.read())


def _find_rounded(checkpoint: Checkpoint, pieces: list[Piece]) -> Iterator[tuple[str, Tensor]]:
    """Norms for which w + 1 - 1 in float32 is not w."""
    for piece in pieces:
        if "plus_one" in piece.steps:
            (name,) = piece.sources
            stored = checkpoint.read(name)
            back = as_dense(minus_one(plus_one(stored)), stored.scheme)
            if not np.array_equal(back.payload, stored.payload):
                yield name, stored


def _bytes(tensor: Tensor) -> GgufValue:
    return np.ascontiguousarray(tensor.payload).reshape(-1)


def _file_key(name: str) -> str:
    return TOKENIZER_JSON if name == "tokenizer.json" else FILE + name


def _value(raw: bytes) -> GgufValue:
    """Text where it is text, so that people can read it in other tools."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return np.frombuffer(raw, np.uint8)


def _general(checkpoint: Checkpoint, tensors: list[Outgoing]) -> dict[str, GgufValue]:
    totals: dict[str, int] = {}
    for tensor in tensors:
        totals[tensor.scheme] = totals.get(tensor.scheme, 0) + tensor.nbytes
    largest = max(totals, key=lambda name: totals[name])
    general: dict[str, GgufValue] = {"general.type": "model", "general.name": checkpoint.path.resolve().name}
    if largest in _FILE_TYPES:
        general["general.file_type"] = _FILE_TYPES[largest]
    if largest not in DENSE:
        general["general.quantization_version"] = 2
    for name, key in _SAMPLING.items():
        value = getattr(checkpoint.generation, name)
        if value is not None:
            general[f"general.sampling.{key}"] = value if name == "top_k" else float(value)
    return general


def _make_texts(checkpoint: Checkpoint) -> tuple[GgufTokenizerSource | None, dict[str, GgufValue]]:
    """The keys of tokenizer and templates."""
    tokenizer = open_tokenizer(checkpoint)
    if tokenizer is None:
        ends, bos = checkpoint.generation.eos_token_ids, checkpoint.generation.bos_token_id
        keys: dict[str, GgufValue] = {} if bos is None else {"tokenizer.ggml.bos_token_id": bos}
        return None, {**keys, END_IDS: np.array(ends, np.int32)} if ends else keys
    source = checkpoint.tokenizer_source
    assert isinstance(source, HfTokenizerSource), "a directory's tokenizer is a tokenizer.json"
    all_ends = list_ends(checkpoint.generation, tokenizer)
    vocabulary = make_vocabulary(source, tokenizer, checkpoint.spec.vocab_size, all_ends)
    return vocabulary, {**describe_vocabulary(vocabulary), END_IDS: np.array(all_ends, np.int32)}


def describe_vocabulary(source: GgufTokenizerSource) -> dict[str, GgufValue]:
    """The `tokenizer.` keys of a vocabulary."""
    keys: dict[str, GgufValue] = {"model": source.model, "pre": source.pre, "tokens": list(source.tokens)}
    if source.scores:
        keys["scores"] = np.array(source.scores, np.float32)
    keys["token_type"] = np.array(source.token_types, np.int32)
    if source.merges:
        keys["merges"] = list(source.merges)
    if source.precompiled_charsmap:
        keys["precompiled_charsmap"] = np.frombuffer(source.precompiled_charsmap, np.uint8)
    keys |= {**source.ids, **source.flags}
    texts = {f"tokenizer.ggml.{name}": value for name, value in keys.items()}
    if source.chat_template is not None:
        texts["tokenizer.chat_template"] = source.chat_template
    texts |= {f"tokenizer.chat_template.{name}": template for name, template in source.chat_templates.items()}
    return texts


def _list_text_losses(checkpoint: Checkpoint, vocabulary: GgufTokenizerSource | None) -> Iterator[Loss]:
    if vocabulary is None:
        yield Loss("tokenizer", "the source has none", False)
        return
    if checkpoint.generation.max_new_tokens is not None:
        yield Loss("max_new_tokens", "has no key; it stands in the carried generation_config.json", False)
