"""Logits that another process writes, handed on in pieces."""

import sys
from pathlib import Path

import numpy as np
import pytest
from tests.bench.fake_peer import FLAT_LOGITS, write_peer

from pelton.bench.peer_logits import STEP_TOKENS, make_peer_reader
from pelton.bench.peer_process import PeerProcess
from pelton.errors import TransferError

pytestmark = pytest.mark.unit


def test_rows_come_in_the_pieces_that_are_compared(tmp_path: Path) -> None:
    script = write_peer(tmp_path, FLAT_LOGITS, 3)
    with PeerProcess("flat", [sys.executable, str(script)]) as peer:
        peer.wait_until_ready()
        read = make_peer_reader(peer, tmp_path, window=1000, chunk=256, vocab_size=3)
        pieces = list(read(list(range(STEP_TOKENS + 100))))
    assert [piece.shape for piece in pieces] == [(256, 3), (256, 3), (100, 3)]
    assert {float(value) for piece in pieces for value in np.unique(piece)} == {0.5}
    assert not (tmp_path / "logits.f32").exists()


def test_another_vocabulary_is_another_model(tmp_path: Path) -> None:
    script = write_peer(tmp_path, FLAT_LOGITS, 3)
    with PeerProcess("flat", [sys.executable, str(script)]) as peer:
        peer.wait_until_ready()
        read = make_peer_reader(peer, tmp_path, window=10, chunk=64, vocab_size=4)
        with pytest.raises(TransferError, match=r"logits of shape \(2, 3\) for 2 tokens, expected \(2, 4\)"):
            list(read([1, 2]))
