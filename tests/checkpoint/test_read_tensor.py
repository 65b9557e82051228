"""Shapes become rows: the last axis is one row, whatever the number of the others."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pelton.checkpoint.contract import TensorInfo
from pelton.checkpoint.mapped_file import MappedFile
from pelton.checkpoint.read_tensor import make_tensor, unknown_tensor
from pelton.checkpoint.scheme import READABLE, row_bytes
from pelton.errors import CheckpointError

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("shape", "scheme", "nbytes", "rows"),
    [
        ((), "F32", 4, (1, 4)),
        ((6,), "F16", 12, (1, 12)),
        ((2, 3, 32), "Q8_0", 204, (6, 34)),
        ((0, 4), "F32", 0, (0, 16)),
        ((4, 0), "F32", 0, (4, 0)),
    ],
)
def test_rows(tmp_path: Path, shape: tuple[int, ...], scheme: str, nbytes: int, rows: tuple[int, int]) -> None:
    (tmp_path / "x").write_bytes(bytes(nbytes + 1))
    tensor = make_tensor(MappedFile(tmp_path / "x"), TensorInfo("t", shape, scheme, nbytes), 1)
    assert (tensor.name, tensor.shape, tensor.scheme, tensor.payload.shape) == ("t", shape, scheme, rows)


def test_schemes_without_numbers_are_refused(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(bytes(8))
    with pytest.raises(CheckpointError, match="'t' is stored as I64, which cannot be computed with"):
        make_tensor(MappedFile(tmp_path / "x"), TensorInfo("t", (1,), "I64", 8), 0)


@pytest.mark.parametrize("scheme", ["I8", "BOOL", "F8_E4M3", "F6_E2M3"])
def test_what_has_no_numbers_of_its_own_is_refused_by_name_with_what_to_do(tmp_path: Path, scheme: str) -> None:
    (tmp_path / "x").write_bytes(bytes(200))
    message = (
        f"'t' is stored as {scheme}, which cannot be computed with. Use a file with another quantization, for example"
    )
    with pytest.raises(CheckpointError, match=message):
        make_tensor(MappedFile(tmp_path / "x"), TensorInfo("t", (1, 32), scheme, 32), 0)


def test_every_scheme_of_weights_is_read(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(bytes(4000))
    for scheme in READABLE:
        info = TensorInfo("t", (1, 256), scheme, row_bytes(scheme, 256))
        assert make_tensor(MappedFile(tmp_path / "x"), info, 0).payload.shape == (1, info.nbytes)


def test_a_scale_that_is_not_a_number_is_refused(tmp_path: Path) -> None:
    blocks = np.full((2, 3, 17), 127, np.uint8)
    info = TensorInfo("t", (2, 96), "MXFP4", blocks.nbytes)
    (tmp_path / "x").write_bytes(blocks.tobytes())
    assert make_tensor(MappedFile(tmp_path / "x"), info, 0).payload.shape == (2, 51)
    blocks[1, 2, 0] = 255
    (tmp_path / "x").write_bytes(blocks.tobytes())
    with pytest.raises(CheckpointError, match="tensor 't' has a scale that is not a number"):
        make_tensor(MappedFile(tmp_path / "x"), info, 0)


def test_unknown_names_come_with_the_nearest() -> None:
    assert "Did you mean 'norm.weight'?" in str(unknown_tensor(Path("x"), "norm.wait", ["norm.weight", "embed"]))
