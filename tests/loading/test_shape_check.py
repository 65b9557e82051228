"""A weight of a wrong size is named before anything is recorded."""

from dataclasses import replace

import numpy as np
import pytest
from tests.loading.test_weights import SPEC
from tests.steps import dense_weight

from pelton.errors import CheckpointError
from pelton.loading.shape_check import check_shapes

pytestmark = pytest.mark.unit


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
