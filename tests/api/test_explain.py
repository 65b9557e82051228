from pathlib import Path

import pytest
from tests.fakes import TinyModel

from pelton.api.explain import check_packed_weights, explain_model

pytestmark = pytest.mark.cpu


def test_every_op_of_a_model_gets_a_kernel_and_a_reason(tmp_path: Path):
    rows = explain_model(str(TinyModel().write(tmp_path)))
    assert {op for op, _, _ in rows} >= {"embedding", "linear", "attention"}
    assert len(set(rows)) == len(rows)
    assert all(kernel and why for _, kernel, why in rows)


def test_packed_weights_of_an_empty_folder(tmp_path: Path) -> None:
    assert check_packed_weights(str(tmp_path)) == []
    (tmp_path / "x.packed").write_bytes(b"not packed weights")
    assert check_packed_weights(str(tmp_path)) == [
        (str(tmp_path / "x.packed"), "unknown", "it does not begin like a file of packed weights")
    ]
