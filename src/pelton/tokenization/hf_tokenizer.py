"""Loads a `tokenizer.json` as it is, and reads beside it what the library does not know.

The library runs the file's own pipeline, which is the definition of the model's tokenizer. Three things are ours: the
ids of BOS and EOS (`tokenizer_config.json`, then `special_tokens_map.json`), `add_bos_token` and `add_eos_token` where
they are written and the pipeline does otherwise, and the bytes behind each piece, by the kind of the file's decoder.
Truncation and padding that a file carries are switched off: they would drop or add tokens in silence.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pelton.errors import CheckpointError
from pelton.tokenization import byte_alphabet, sentencepiece
from pelton.tokenization.borders import add_borders
from pelton.tokenization.library_errors import blame
from pelton.tokenization.source import HfTokenizerSource
from pelton.tokenization.tokenizer import SpecialTokens, Tokenizer

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Library

MAX_FILE_BYTES = 256 << 20
_TEXT_NAMES = ("bos_token", "eos_token", "unk_token", "pad_token", "sep_token", "cls_token", "mask_token")


def make_hf_tokenizer(source: HfTokenizerSource) -> Tokenizer:
    """The tokenizer of a directory in Hugging Face's layout. Raises CheckpointError naming the file and the field."""
    from tokenizers import Tokenizer as Library  # noqa: PLC0415

    path = source.tokenizer_json
    text = _read(path)
    with blame(str(path)):
        library = Library.from_str(text)
    library.no_truncation()
    library.no_padding()
    texts = {name: found for name in _TEXT_NAMES if (found := _token_text(source, name))}
    bos_id, eos_id = (_find_id(library, texts, name, path) for name in ("bos_token", "eos_token"))
    _apply_flags(library, source.tokenizer_config, bos_id, eos_id)
    ends = frozenset() if eos_id is None else frozenset({eos_id})
    special = SpecialTokens(bos_id=bos_id, eos_id=eos_id, end_ids=ends, texts=texts)
    piece_bytes, strips_first_space = _read_decoder(library, path)
    return Tokenizer(library, special, piece_bytes, strips_first_space=strips_first_space)


def _read(path: Path) -> str:
    try:
        num_bytes = path.stat().st_size
        if num_bytes > MAX_FILE_BYTES:
            raise CheckpointError(
                f"{path}: {num_bytes} bytes; a tokenizer.json of more than {MAX_FILE_BYTES} is refused."
            )
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise CheckpointError(f"{path}: not UTF-8 at byte {error.start}.") from error


def _token_text(source: HfTokenizerSource, name: str) -> str | None:
    for where in (source.tokenizer_config, source.special_tokens):
        value = where.get(name)
        if isinstance(value, Mapping):
            value = value.get("content")
        if isinstance(value, str):
            return value
    return None


def _find_id(library: Library, texts: Mapping[str, str], name: str, path: Path) -> int | None:
    if name not in texts:
        return None
    id_: int | None = library.token_to_id(texts[name])
    if id_ is None:
        raise CheckpointError(
            f"{path}: {name} is {texts[name]!r} in tokenizer_config.json, and the vocabulary has no such token."
        )
    return id_


def _apply_flags(library: Library, config: Mapping[str, Any], bos_id: int | None, eos_id: int | None) -> None:
    """Honour `add_bos_token` and `add_eos_token` where the file's own post-processor does something else."""
    flags = {name: config.get(name) for name in ("add_bos_token", "add_eos_token")}
    if not any(isinstance(flag, bool) for flag in flags.values()):
        return
    ids = library.encode("", add_special_tokens=True).ids
    adds_bos = bool(ids) and ids[0] == bos_id
    adds_eos = bool(ids) and ids[-1] == eos_id and (len(ids) > 1 or not adds_bos)
    wants_bos = flags["add_bos_token"] if isinstance(flags["add_bos_token"], bool) else adds_bos
    wants_eos = flags["add_eos_token"] if isinstance(flags["add_eos_token"], bool) else adds_eos
    wants_bos, wants_eos = wants_bos and bos_id is not None, wants_eos and eos_id is not None
    if (wants_bos, wants_eos) != (adds_bos, adds_eos):
        add_borders(library, bos_id if wants_bos else None, eos_id if wants_eos else None)


def _read_decoder(library: Library, path: Path) -> tuple[Callable[[str], bytes], bool]:
    """How a piece becomes bytes, and whether the first space of a text is the tokenizer's own."""
    if library.decoder is None:
        return _plain_bytes, False
    steps = _flatten(json.loads(library.decoder.__getstate__()))
    kinds = {step["type"] for step in steps}
    if "ByteLevel" in kinds:
        return byte_alphabet.bytes_of_piece, False
    if "WordPiece" in kinds:
        return _word_piece_bytes, True
    unknown = kinds - {"Replace", "ByteFallback", "Fuse", "Strip", "Metaspace"}
    if unknown:
        raise CheckpointError(f"{path}: a decoder of type {', '.join(sorted(unknown))} is not supported.")
    strips = any(
        (step["type"] == "Strip" and step["start"] > 0)
        or (step["type"] == "Metaspace" and step.get("prepend_scheme", "always") != "never")
        for step in steps
    )
    return sentencepiece.bytes_of_piece, strips


def _flatten(decoder: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    if decoder["type"] != "Sequence":
        return [decoder]
    return [step for inner in decoder["decoders"] for step in _flatten(inner)]


def _plain_bytes(piece: str) -> bytes:
    return piece.encode()


def _word_piece_bytes(piece: str) -> bytes:
    return (piece[2:] if piece.startswith("##") else f" {piece}").encode()
