"""`pelton convert`: from one format to another, read back before it gets its name, with a ledger of what became of all.

Nothing is believed of what was written: the target is opened by the reader that serves it, and its specification, end
ids and tokenizer are compared with the source's. What differs is a loss, and a loss that matters is refused unless it
was accepted by name. Memory is that of the largest tensor; time is that of reading and writing once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal

from pelton import __version__
from pelton.checkpoint.checkpoint import open_checkpoint
from pelton.checkpoint.contract import Checkpoint
from pelton.checkpoint.file_hash import compute_sha256
from pelton.checkpoint.gguf.checkpoint import GgufCheckpoint
from pelton.checkpoint.gguf.writer import write_behind, write_gguf
from pelton.checkpoint.hf.checkpoint import HfCheckpoint
from pelton.checkpoint.hf.safetensors_writer import MAX_SHARD_BYTES, write_safetensors, write_safetensors_file
from pelton.conversion.hf_files import read_carried
from pelton.conversion.hf_tokenizer_files import encode_json, list_ends, open_tokenizer
from pelton.conversion.restore import FILES, SIDE_FILE, hash_files, restore
from pelton.conversion.result import Loss, Output
from pelton.conversion.sample_text import list_samples
from pelton.conversion.spec_loss import compare_specs
from pelton.conversion.to_gguf import make_gguf
from pelton.conversion.to_hf import make_hf
from pelton.conversion.workplace import make_target
from pelton.errors import CheckpointError

Format = Literal["safetensors", "gguf"]
FORMATS: Final[tuple[Format, ...]] = ("safetensors", "gguf")
LEDGER: Final = "conversion.json"
LEDGER_KEY: Final = "pelton.conversion"
LEDGER_VERSION: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What was asked for. `accepted` are fields whose loss is borne, or "all"."""

    scheme: str | None = None
    strict: bool = False
    accepted: Collection[str] = ()
    force: bool = False
    max_shard_bytes: int = MAX_SHARD_BYTES


@dataclass(frozen=True, slots=True)
class Progress:
    """Whom to tell: of stages by name and bytes to come, and of bytes that are done."""

    on_stage: Callable[[str, int], None] = lambda stage, num_bytes: None
    on_bytes: Callable[[int], None] = lambda num_bytes: None


def convert(source: Path, target: Path, to: Format, options: Options, progress: Progress) -> dict[str, Any]:
    """Make `target` and return its ledger. Raises CheckpointError, and then there is no target."""
    with open_checkpoint(source) as checkpoint:
        header: bytes | None = None
        output = (
            make_gguf(checkpoint, scheme=options.scheme) if to == "gguf" else make_hf(checkpoint, scheme=options.scheme)
        )
        if to == "gguf" and isinstance(checkpoint, HfCheckpoint) and options.scheme is None:
            restored = restore(checkpoint.path, output, read_carried(checkpoint.path))
            output, header = restored.output, restored.header
        check_losses(source, output.losses, options)
        progress.on_stage("hashing the source", _count_bytes(checkpoint))
        ledger = make_ledger(checkpoint, output, to, options, progress)
        with make_target(target, output.nbytes, force=options.force) as part:
            progress.on_stage("writing", sum(tensor.nbytes for tensor in (*output.tensors, *output.side)))
            if to == "gguf":
                _write_gguf(part, output, header, ledger, progress)
            else:
                _write_directory(part, output, ledger, options, progress)
            progress.on_stage("reading back", 0)
            found = list(compare(checkpoint, part))
            check_losses(source, found, options)
            if found and to == "safetensors":
                ledger["losses"] += [asdict(loss) for loss in found]
                (part / LEDGER).write_bytes(encode_json(ledger))
        return ledger


def check_losses(source: Path, losses: Collection[Loss], options: Options) -> None:
    """Raise CheckpointError for what may not be lost."""
    counts = [loss for loss in losses if (loss.matters or options.strict) and not _is_accepted(loss, options)]
    if options.scheme is not None and not options.strict:
        counts = [loss for loss in counts if not loss.field.startswith("tensor ")]  # rounding was asked for
    if not counts:
        return
    told = "; ".join(f"{loss.field}: {loss.what}" for loss in counts[:5])
    more = f"; and {len(counts) - 5} more" if len(counts) > 5 else ""
    raise CheckpointError(
        f"{source}: would lose {told}{more}. Use a target that can say it, or --accept-loss "
        f"{counts[0].field.split(' ')[0] if not options.strict else 'all'}."
    )


def _is_accepted(loss: Loss, options: Options) -> bool:
    names = {loss.field, loss.field.split(" ")[0], loss.field.split("[")[0]}
    return "all" in options.accepted or bool(names & set(options.accepted))


def _write_gguf(
    part: Path, output: Output, header: bytes | None, ledger: Mapping[str, Any], progress: Progress
) -> None:
    if header is not None:  # it is the file that it once was: nothing of ours is added
        write_behind(part, header, output.tensors, on_bytes=progress.on_bytes)
        return
    metadata = {**output.metadata, LEDGER_KEY: json.dumps(ledger, ensure_ascii=False)}
    write_gguf(part, metadata, output.tensors, on_bytes=progress.on_bytes)


def _write_directory(
    part: Path, output: Output, ledger: Mapping[str, Any], options: Options, progress: Progress
) -> None:
    part.mkdir()
    for name, raw in output.files.items():
        path = part / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(raw)
    write_safetensors(
        part,
        output.tensors,
        metadata={"format": "pt"},
        max_shard_bytes=options.max_shard_bytes,
        on_bytes=progress.on_bytes,
    )
    if output.side:
        told = {FILES: hash_files(output.files)}
        write_safetensors_file(part / SIDE_FILE, output.side, metadata=told, on_bytes=progress.on_bytes)
    (part / LEDGER).write_bytes(encode_json(ledger))


def make_ledger(
    checkpoint: Checkpoint, output: Output, to: str, options: Options, progress: Progress
) -> dict[str, Any]:
    """What became of everything: files of the source with their hashes, fields, tensors, losses."""
    return {
        "version": LEDGER_VERSION,
        "made_by": f"pelton {__version__}",
        "to": to,
        "scheme": options.scheme,
        "source": {"name": checkpoint.path.name, "files": dict(_hash_source(checkpoint, progress))},
        "model": asdict(checkpoint.spec),
        "tensors": [asdict(record) for record in output.records],
        "losses": [asdict(loss) for loss in output.losses],
    }


def _hash_source(checkpoint: Checkpoint, progress: Progress) -> Iterator[tuple[str, dict[str, Any]]]:
    for path in _list_files(checkpoint):
        size = path.stat().st_size
        yield path.name, {"bytes": size, "sha256": compute_sha256(path)}
        progress.on_bytes(size)


def _list_files(checkpoint: Checkpoint) -> list[Path]:
    weights = [file.path for file in checkpoint.files]
    if not isinstance(checkpoint, HfCheckpoint):
        return weights
    return [*weights, *(checkpoint.path / name for name in read_carried(checkpoint.path))]


def _count_bytes(checkpoint: Checkpoint) -> int:
    return sum(path.stat().st_size for path in _list_files(checkpoint))


def compare(source: Checkpoint, part: Path) -> Iterator[Loss]:
    """What the target, opened by its own reader, says differently of model, ends and texts."""
    target: Checkpoint = HfCheckpoint(part) if part.is_dir() else GgufCheckpoint(part)
    with target:
        for each in compare_specs(source.spec, target.spec):
            yield Loss(each.field, f"{each.source} becomes {each.target}", True)
        if not (source.has_tokenizer and target.has_tokenizer):
            return
        ours, theirs = open_tokenizer(source), open_tokenizer(target)
        ends = [
            set(list_ends(checkpoint.generation, tokenizer))
            for checkpoint, tokenizer in ((source, ours), (target, theirs))
        ]
        if ends[0] != ends[1]:
            yield Loss("eos_token_id", f"{sorted(ends[0])} becomes {sorted(ends[1])}", True)
        assert ours is not None, "the source has a tokenizer"
        assert theirs is not None, "the target has a tokenizer"
        unequal = [text for text in list_samples() if ours.encode(text) != theirs.encode(text)]
        if unequal:
            yield Loss("tokenizer", f"{len(unequal)} texts have other ids, the first is {unequal[0][:60]!r}", True)
        templates = [
            (checkpoint.tokenizer_source.chat_template, dict(checkpoint.tokenizer_source.chat_templates))
            for checkpoint in (source, target)
        ]
        if templates[0] != templates[1]:
            yield Loss("chat_template", "is not the same text", True)
