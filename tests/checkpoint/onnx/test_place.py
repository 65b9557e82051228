"""Numbers beside the file: compared with their checksum, and found through the links of a cache."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.attacks.test_onnx import NAME, beside

from pelton.checkpoint.onnx.weights import read_onnx
from pelton.errors import CheckpointError

pytestmark = pytest.mark.unit

RIGHT = "e129f27c5103bc5cc44bcdf0a15e160d445066ff"


@pytest.mark.parametrize(("checksum", "is_right"), [("3" * 40, False), (RIGHT, True)])
def test_a_checksum_is_compared_when_bytes_are_asked_for(checksum: str, is_right: bool, tmp_path: Path) -> None:
    (tmp_path / "w.onnx_data").write_bytes(bytes(64))
    (tmp_path / "model.onnx").write_bytes(beside(checksum=checksum))
    (placed,) = read_onnx(tmp_path / "model.onnx").values()
    ask: Callable[[], object] = placed.flat
    if is_right:
        ask()
    else:
        with pytest.raises(CheckpointError, match="has the SHA1"):
            ask()


def test_files_of_a_cache_are_links_into_its_blobs(tmp_path: Path) -> None:
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshots" / "abc" / "onnx"
    blobs.mkdir()
    snapshot.mkdir(parents=True)
    (blobs / "1").write_bytes(beside())
    (blobs / "2").write_bytes(bytes(64))
    (snapshot / "model.onnx").symlink_to(blobs / "1")
    (snapshot / "w.onnx_data").symlink_to(blobs / "2")
    assert list(read_onnx(snapshot / "model.onnx")) == [NAME]
