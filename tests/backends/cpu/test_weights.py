"""Weights as the program wants them: vectors from several parts, tables as stored, and what is refused."""

import numpy as np
import pytest
from tests.steps import dense_weight

from pelton.backends.cpu.weights import WeightStore
from pelton.checkpoint.weight import Tensor, Weight
from pelton.errors import BackendError
from pelton.plan import WeightRef

pytestmark = pytest.mark.cpu

ARRAY = np.arange(12, dtype=np.float32).reshape(3, 4)


def store(*weights: Weight, exact: bool = False) -> WeightStore:
    return WeightStore({weight.name: weight for weight in weights}, exact=exact)


def test_a_missing_weight_and_a_wrong_shape_are_refused_by_name():
    with pytest.raises(BackendError, match=r"'down'.*not among those loaded"):
        store().get(WeightRef("down", (3, 4)))
    with pytest.raises(BackendError, match=r"'down' has shape \(3, 4\)"):
        store(dense_weight("down", ARRAY)).get(WeightRef("down", (4, 3)))


def test_a_table_is_the_stored_bytes_and_is_kept_alive():
    made = store(dense_weight("embed", ARRAY))
    table = made.table(WeightRef("embed", (3, 4)))
    assert np.array_equal(table.payload.view(np.float32), ARRAY)
    assert made.tables[0] is table.payload


def test_a_stacked_table_is_refused():
    part = dense_weight("embed", ARRAY).parts[0]
    with pytest.raises(BackendError, match=r"'embed' is stacked from 2 tensors"):
        store(Weight("embed", (part, part))).table(WeightRef("embed", (6, 4)))


def test_each_part_has_its_own_kind_of_activations():
    q8 = Tensor("v", (3, 32), "Q8_0", np.zeros((3, 34), np.uint8))
    mixed = Weight("qkv", (dense_weight("q", np.zeros((3, 32), np.float32)).parts[0], q8))
    ref = WeightRef("qkv", (6, 32))
    for exact, is_wide, second in (
        (False, False, "Int8"),
        (False, True, "Int8Pair"),
        (True, False, "Float32"),
        (True, True, "Float32"),
    ):
        kinds = store(mixed, exact=exact).activation_kinds(ref, is_wide=is_wide)
        assert [kind.name for kind in kinds] == ["Float32", second]
