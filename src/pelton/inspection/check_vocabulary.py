"""Whether the files of one tokenizer agree: tokenizer.json, which is read, and those that other programs read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pelton.checkpoint.strict_json import load_object
from pelton.errors import CheckpointError
from pelton.inspection.finding import Finding
from pelton.inspection.scan import listed
from pelton.inspection.sentencepiece_model import read_pieces
from pelton.inspection.subject import Subject
from pelton.tokenization.tokenizer import Tokenizer

_MAX_TEXT_BYTES = 16 << 20


def load_if_there(path: Path) -> dict[str, Any]:
    """The object in a file that may be missing or damaged; whoever needs it says so."""
    try:
        return load_object(path) if path.is_file() else {}
    except CheckpointError:
        return {}


def check_vocabulary(subject: Subject, tokenizer: Tokenizer) -> list[Finding]:
    """What differs between the files of a directory."""
    directory = subject.directory
    if directory is None or subject.format == "gguf":
        return []
    findings = []
    differing = [
        f"{id_} is {content!r} in {where} and {ours!r} in tokenizer.json"
        for where, tokens in (
            ("tokenizer_config.json", _decoder(subject.documents.get("tokenizer_config.json", {}))),
            ("added_tokens.json", _added(load_if_there(directory / "added_tokens.json"))),
        )
        for id_, content in tokens.items()
        if (ours := tokenizer.id_to_token(id_) if id_ < tokenizer.vocab_size else None) != content
    ]
    if differing:
        findings.append(Finding("tokenizer.added", f"{listed(differing)}."))
    vocabulary = load_if_there(directory / "vocab.json")
    model = subject.pipeline.get("model")
    ours = model.get("vocab") if isinstance(model, Mapping) else None
    if vocabulary and isinstance(ours, Mapping) and not _agree(vocabulary, ours, tokenizer):
        changed = [token for token, id_ in vocabulary.items() if tokenizer.token_to_id(token) != id_]
        seen = f"{len(changed):,} tokens have other ids in vocab.json" if changed else "vocab.json lacks tokens"
        findings.append(Finding("tokenizer.vocabulary", f"{seen}: {listed([repr(t) for t in changed[:3]] or ['-'])}."))
    findings += _check_pieces(directory / "tokenizer.model", tokenizer)
    return findings + _check_lines(directory / "vocab.txt", tokenizer)


def _check_lines(path: Path, tokenizer: Tokenizer) -> list[Finding]:
    """The vocabulary of WordPiece, one token in a line."""
    if not path.is_file() or path.stat().st_size > _MAX_TEXT_BYTES:
        return []
    lines = path.read_bytes().decode("utf-8", "replace").splitlines()
    changed = [
        f"{id_} is {line!r}"
        for id_, line in enumerate(lines)
        if (tokenizer.id_to_token(id_) if id_ < tokenizer.vocab_size else "") != line
    ]
    if not changed:
        return []
    return [Finding("tokenizer.vocabulary", f"{len(changed):,} lines of {path.name} differ: {listed(changed[:3])}.")]


def _check_pieces(path: Path, tokenizer: Tokenizer) -> list[Finding]:
    """A SentencePiece model beside tokenizer.json. Special tokens may have other names there."""
    if not path.is_file():
        return []
    try:
        pieces = read_pieces(path)
    except CheckpointError:
        return []  # tiktoken's files have the same name; none of them is read here
    changed = [
        f"{id_} is {piece!r}"
        for id_, piece in enumerate(pieces)
        if id_ not in tokenizer.special_ids
        and (tokenizer.id_to_token(id_) if id_ < tokenizer.vocab_size else "") != piece
    ]
    if not changed:
        return []
    return [Finding("tokenizer.vocabulary", f"{len(changed):,} pieces of {path.name} differ: {listed(changed[:3])}.")]


def check_plain_ends(tokenizer: Tokenizer, end_ids: Mapping[int, str]) -> list[Finding]:
    """End ids that are neither special nor spelled like a marker: pieces of ordinary text."""
    plain = [
        f"{id_} ({text!r})"
        for id_, text in end_ids.items()
        if id_ not in tokenizer.special_ids and not text.startswith(("<", "[", "|"))
    ]
    return [Finding("tokenizer.plain-end", f"{listed(plain)}.")] if plain else []


def _decoder(config: Mapping[str, Any]) -> dict[int, str]:
    """`added_tokens_decoder`: id as text -> token."""
    value = config.get("added_tokens_decoder")
    entries = value.items() if isinstance(value, Mapping) else ()
    return {
        int(key): entry["content"]
        for key, entry in entries
        if key.isdecimal() and len(key) < 10 and isinstance(entry, Mapping) and isinstance(entry.get("content"), str)
    }


def _added(document: Mapping[str, Any]) -> dict[int, str]:
    """added_tokens.json: token -> id."""
    return {id_: token for token, id_ in document.items() if type(id_) is int and id_ >= 0}


def _agree(vocabulary: Mapping[str, Any], ours: Mapping[str, Any], tokenizer: Tokenizer) -> bool:
    """Added tokens may stand in either file."""
    if vocabulary == ours:
        return True
    missing = [token for token in ours if token not in vocabulary]
    changed = any(tokenizer.token_to_id(token) != id_ for token, id_ in vocabulary.items())
    return not changed and all(tokenizer.token_to_id(token) in tokenizer.special_ids for token in missing)
