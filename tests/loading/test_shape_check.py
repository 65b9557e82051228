"""A weight of a wrong size is named before anything is recorded."""

from dataclasses import replace

import numpy as np
import pytest
from tests.loading.test_weights import SPEC
from tests.steps import dense_weight

from pelton.checkpoint.model_spec import Experts
from pelton.checkpoint.weight import Weight
from pelton.errors import CheckpointError
from pelton.loading.shape_check import check_shapes, expected_shapes
from pelton.models import ARCHITECTURES, find_model

pytestmark = pytest.mark.unit

EXPERTS = Experts(num_experts=3, num_experts_per_token=2, intermediate_size=4, normalised=True)


def test_right_sizes_pass():
    check_shapes(
        {"embed": dense_weight("e", np.ones((5, 4))), "layers.1.qkv": dense_weight("q", np.ones((8, 4)))}, SPEC
    )


def test_wrong_size_names_tensor_shapes_and_fields():
    message = r"model\.q \[6, 4\]: 'layers\.0\.qkv' has shape \[6, 4\], this model expects \[8, 4\] .*num_heads=2"
    with pytest.raises(CheckpointError, match=message):
        check_shapes({"layers.0.qkv": dense_weight("model.q", np.ones((6, 4)))}, SPEC)


def test_norms_of_queries_depend_on_their_style():
    weight = {"layers.0.q_norm": dense_weight("n", np.ones(4))}
    check_shapes(weight, replace(SPEC, qk_norm="full"))
    with pytest.raises(CheckpointError, match="head_dim=2"):
        check_shapes(weight, replace(SPEC, qk_norm="head"))


def test_parts_that_add_up_by_chance():
    """q, k and v of 4 + 2 + 2 rows, stored as 2 + 3 + 3: the sum alone would not tell."""
    parts = tuple(dense_weight(name, np.ones((rows, 4))).parts[0] for name, rows in (("q", 2), ("k", 3), ("v", 3)))
    with pytest.raises(CheckpointError, match=r"q \[2, 4\] \+ k \[3, 4\] .* in parts of 4 \+ 2 \+ 2 rows"):
        check_shapes({"layers.0.qkv": Weight("layers.0.qkv", parts)}, SPEC)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_weight_of_every_model_file_is_checked(architecture):
    names = {row.to.rpartition(".")[2] for row in find_model(architecture).WEIGHTS.rows}
    assert names <= set(expected_shapes(replace(SPEC, qk_norm="head", experts=EXPERTS)))


def test_experts_are_checked_one_by_one():
    """Three experts of 4 + 4 gates and ups, stored as 4 + 5 + 3 + 4 + 4 + 4: the sum alone would not tell."""
    spec = replace(SPEC, experts=EXPERTS)
    for rows in ((4,) * 6, (8,) * 3):
        check_shapes({"layers.0.experts_gate_up": experts_weight(rows)}, spec)
    with pytest.raises(CheckpointError, match=r"in parts of 4 \+ 4 \+ 4 .*num_experts=3, expert intermediate_size=4"):
        check_shapes({"layers.0.experts_gate_up": experts_weight((4, 5, 3, 4, 4, 4))}, spec)
    with pytest.raises(CheckpointError, match=r"'layers\.0\.router' has shape \[3, 4\], this model expects \[4, 4\]"):
        check_shapes(
            {"layers.0.router": experts_weight((3,))},
            replace(SPEC, experts=replace(EXPERTS, shared_intermediate_size=6)),
        )


def experts_weight(rows):
    parts = tuple(dense_weight(f"expert.{i}", np.ones((count, 4))).parts[0] for i, count in enumerate(rows))
    return Weight("experts", parts)
