from pathlib import Path

import pytest
from tests.fakes import TinyModel

from pelton.api.explain import explain_model

pytestmark = pytest.mark.cpu


def test_every_op_of_a_model_gets_a_kernel_and_a_reason(tmp_path: Path):
    rows = explain_model(str(TinyModel().write(tmp_path)))
    assert {op for op, _, _ in rows} >= {"embedding", "linear", "attention"}
    assert len(set(rows)) == len(rows)
    assert all(kernel and why for _, kernel, why in rows)
