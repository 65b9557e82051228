"""Reads the logits of another engine, which it writes to a file piece by piece.

A piece is as many tokens as the engine would compute in one step of a prompt, so that its own choice of kernels is
what is measured; rows are handed on in the smaller pieces that they are compared in. The file of one piece is all that
is ever kept: 512 rows of 150,000 float32 are 300 MB.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from pelton.api.assemble import Opened
from pelton.bench.peer_process import PeerFacts, PeerProcess, find_peer_script
from pelton.errors import TransferError
from pelton.runner.direct_step import LogitsReader

STEP_TOKENS: Final = 512  # llama.cpp's default


def make_peer_reader(peer: PeerProcess, folder: Path, *, window: int, chunk: int, vocab_size: int) -> LogitsReader:
    """A reader of texts of at most `window` tokens, in pieces of `chunk` rows. `folder` is for one file."""
    assert STEP_TOKENS % chunk == 0, "all pieces but the last of a text have `chunk` rows"
    file = folder / "logits.f32"

    def read(token_ids: list[int]) -> Iterator[npt.NDArray[np.float32]]:
        for start in range(0, len(token_ids), STEP_TOKENS):
            piece = token_ids[start : start + STEP_TOKENS]
            answer = peer.ask({"token_ids": piece, "position": start, "window": window, "file": str(file)})
            shape = (answer.get("num_rows"), answer.get("num_columns"))
            if shape != (len(piece), vocab_size):
                raise TransferError(
                    f"{peer.name}: logits of shape {shape} for {len(piece)} tokens, expected "
                    f"{(len(piece), vocab_size)}. Compare the same model."
                )
            logits_TV = np.fromfile(file, np.float32).reshape(len(piece), vocab_size)
            for row in range(0, len(piece), chunk):
                yield logits_TV[row : row + chunk]
        file.unlink(missing_ok=True)

    return read


@contextmanager
def open_peer_reader(
    opened: Opened, peer: str, *, window: int, chunk: int, peer_python: str, peer_model: str | None
) -> Iterator[tuple[LogitsReader, PeerFacts]]:
    """Start the engine that `peer` names on `opened`'s file, or on `peer_model`; its reader, and what it is."""
    script, model = find_peer_script(peer), peer_model or str(opened.checkpoint.path)
    command = [peer_python, str(script), model, "--threads", str(opened.config.runner.num_threads)]
    with PeerProcess(peer, command) as process, tempfile.TemporaryDirectory() as folder:
        facts = process.wait_until_ready()
        vocab_size = opened.checkpoint.spec.vocab_size
        yield make_peer_reader(process, Path(folder), window=window, chunk=chunk, vocab_size=vocab_size), facts
