"""A row means what it says without settings."""

import pytest

from pelton.plan.weight_map import Row, always

pytestmark = pytest.mark.unit


def test_a_row_is_required_and_untouched_unless_told():
    row = Row(to="norm", hf="model.norm.weight", gguf="output_norm.weight")
    assert (row.transform, row.gguf_transform, row.spare) == ("none", "none", None)
    assert row.when is always
