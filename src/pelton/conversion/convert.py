"""`pelton convert`: from one format to another, read back before it gets its name, with a ledger of what became of all.

Nothing is believed of what was written: the target is opened by the reader that serves it, and its specification, end
ids and tokenizer are compared with the source's. What differs is a loss, and a loss that matters is refused unless it
was accepted by name. Memory is that of the largest tensor; time is that of reading and writing once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from pelton.checkpoint.checkpoint import open_checkpoint
from pelton.checkpoint.contract import Checkpoint
from pelton.checkpoint.file_hash import compute_sha256
from pelton.checkpoint.hf.checkpoint import HfCheckpoint
from pelton.checkpoint.hf.safetensors_writer import MAX_SHARD_BYTES
from pelton.conversion.copy_container import check_copy, copy_container, is_copied
from pelton.conversion.hf_files import directory_of, read_carried
from pelton.conversion.ledger import hash_files, list_files, make_key, make_ledger
from pelton.conversion.quantize import SCHEMES, quantize_output
from pelton.conversion.read_back import compare
from pelton.conversion.restore import Original, restore
from pelton.conversion.result import Loss, Output
from pelton.conversion.to_gguf import make_gguf
from pelton.conversion.to_hf import make_hf
from pelton.conversion.workplace import check_target, make_target
from pelton.conversion.write import Format, Job, add_losses, write
from pelton.errors import CheckpointError

FORMATS: Final[tuple[Format, ...]] = ("safetensors", "gguf", "pytorch")


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
    check_target(source, target, 0, force=options.force)
    with ExitStack() as stack:
        checkpoint, output, original = _make_output(source, to, options, stack)
        check_losses(source, output.losses, options)
        check_target(source, target, output.nbytes, force=options.force)
        files = list_files(source, checkpoint, output)
        progress.on_stage("hashing the source", sum(path.stat().st_size for path in files.values()))
        hashes = hash_files(files, progress.on_bytes)
        ledger = make_ledger(source, checkpoint, output, hashes, to=to, scheme=options.scheme)
        with make_target(target, make_key(ledger, options.max_shard_bytes, bool(options.accepted))) as part:
            progress.on_stage("writing", sum(tensor.nbytes for tensor in (*output.tensors, *output.side)))
            job = Job(part, to, original, options.max_shard_bytes, bool(options.accepted), progress.on_bytes)
            write(job, output, ledger)
            progress.on_stage("reading back", 0)
            if checkpoint is None or output.is_copy:
                check_copy(output, part)
            found = [] if checkpoint is None else list(compare(checkpoint, part, output.spec or checkpoint.spec))
            if original is not None and original.sha256 not in (None, compute_sha256(part)):
                found.append(
                    Loss("bytes", "the tensors are those of the GGUF; the file is not the same to the byte", False)
                )
            check_losses(source, found, options)
            if found:
                ledger["losses"] += [asdict(loss) for loss in found]
                add_losses(job, ledger)
        return ledger


def _make_output(
    source: Path, to: Format, options: Options, stack: ExitStack
) -> tuple[Checkpoint | None, Output, Original | None]:
    """The opened source, what to write, and the GGUF that it once was."""
    if to != "gguf" and options.scheme is None and is_copied(source):
        output = copy_container(source)
        try:
            return stack.enter_context(open_checkpoint(source)), output, None
        except CheckpointError as error:
            why = f"only tensors and files are compared, as it cannot be run: {str(error).split('. ')[0]}"
            unknown = Loss("model", why, False)
            return None, replace(output, losses=[unknown, *output.losses]), None
    checkpoint = stack.enter_context(open_checkpoint(source))
    if options.scheme in SCHEMES:
        if to != "gguf":
            raise CheckpointError(f"{source}: {options.scheme} is a scheme of GGUF. Give --to gguf.")
        return checkpoint, quantize_output(make_gguf(checkpoint), options.scheme), None
    if to != "gguf":
        return checkpoint, make_hf(checkpoint, scheme=options.scheme), None
    output = make_gguf(checkpoint, scheme=options.scheme)
    if options.scheme is None and isinstance(checkpoint, HfCheckpoint):
        directory = directory_of(checkpoint.path)
        restored = restore(directory, output, read_carried(directory))
        return checkpoint, restored.output, restored.original
    return checkpoint, output, None


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
