"""`pelton convert --to onnx`: a directory with the graph, its weights, and the files that a Hugging Face directory has.

Weights are read back byte by byte, from where they were written. That the reader finds the source's tensors in them,
and that the graph gives the logits of the reference, is what tests prove for every family.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pelton.checkpoint.checkpoint import open_checkpoint
from pelton.checkpoint.contract import Checkpoint
from pelton.conversion.convert import Options, Progress, check_losses
from pelton.conversion.hf_tokenizer_files import encode_json
from pelton.conversion.ledger import LEDGER, hash_files, list_files, make_key, make_ledger
from pelton.conversion.onnx_export import check_weights, count_bytes, export_onnx, list_weights
from pelton.conversion.result import Output, TensorRecord
from pelton.conversion.to_hf import make_hf
from pelton.conversion.workplace import check_target, make_target
from pelton.conversion.write import write_files
from pelton.errors import CheckpointError


def convert_to_onnx(source: Path, target: Path, options: Options, progress: Progress) -> dict[str, Any]:
    """Make `target` and return its ledger. Raises CheckpointError, and then there is no target."""
    if options.scheme not in (None, "F32"):
        raise CheckpointError(f"{target}: ONNX weights are written as F32 here; {options.scheme} is not there yet.")
    with open_checkpoint(source) as checkpoint:
        described = make_hf(checkpoint)
        records = [TensorRecord(name, tensors, (), "F32") for name, tensors, _ in list_weights(checkpoint)]
        output = Output(tensors=[], records=records, losses=described.losses, files=described.files)
        check_losses(source, output.losses, options)
        nbytes = count_bytes(checkpoint)
        check_target(source, target, nbytes, force=options.force)
        files = list_files(source, checkpoint, output)
        progress.on_stage("hashing the source", sum(path.stat().st_size for path in files.values()))
        hashes = hash_files(files, progress.on_bytes)
        ledger = make_ledger(source, checkpoint, output, hashes, to="onnx", scheme=options.scheme)
        with make_target(target, make_key(ledger)) as part:
            progress.on_stage("writing", nbytes)
            _write(checkpoint, part, output, ledger, progress)
            progress.on_stage("reading back", 0)
            check_weights(checkpoint, part)
        return ledger


def _write(checkpoint: Checkpoint, part: Path, output: Output, ledger: dict[str, Any], progress: Progress) -> None:
    write_files(part, output.files, str(ledger["source"]["name"]))
    for path in part.glob("model.onnx*"):  # of an interrupted run
        path.unlink()
    export_onnx(checkpoint, part, on_bytes=progress.on_bytes)
    (part / LEDGER).write_bytes(encode_json(ledger))
