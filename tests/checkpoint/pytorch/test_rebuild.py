"""The calls of a pickle that have a meaning. Hostile arguments: tests/attacks/test_pytorch.py."""

from __future__ import annotations

import pytest

from pelton.checkpoint.pytorch.rebuild import (
    Call,
    Dtype,
    Refused,
    Storage,
    StorageType,
    StoredTensor,
    call,
    make_storage,
)

pytestmark = pytest.mark.unit

STORAGE = Storage("0", "F32", 12)


def test_a_storage_is_a_record_with_a_type() -> None:
    assert make_storage(("storage", StorageType("F32"), "7", "cuda:1", 5)) == Storage("7", "F32", 5)
    assert make_storage(("storage", StorageType("F32"), "94037292398480", "cpu", 5)).key == "94037292398480"
    for numel in (True, 1.0, "5"):
        with pytest.raises(Refused):
            make_storage(("storage", StorageType("F32"), "7", "cpu", numel))


def test_a_tensor_is_a_part_of_a_storage() -> None:
    assert call(Call.TENSOR, (STORAGE, 2, (2, 3), (3, 1), False, {})) == StoredTensor(STORAGE, "F32", (2, 3), None, 2)
    view = call(Call.TENSOR, (STORAGE, 0, (3, 2), (1, 3), False, {}, None))
    assert (view.shape, view.strides) == ((3, 2), (1, 3))
    assert call(Call.PARAMETER, (view, True, {})) is view


def test_a_dtype_types_a_storage_of_bytes() -> None:
    untyped = Storage("0", "", 12)
    tensor = call(Call.TYPED_TENSOR, (untyped, 1, (5,), (1,), False, {}, Dtype("U16")))
    assert (tensor.scheme, tensor.itemsize, tensor.first) == ("U16", 2, 1)
    with pytest.raises(Refused, match="has 6 elements"):
        call(Call.TYPED_TENSOR, (untyped, 2, (5,), (1,), False, {}, Dtype("U16")))
    with pytest.raises(Refused, match="a tensor of U16 from a storage of F32"):
        call(Call.TYPED_TENSOR, (STORAGE, 0, (5,), (1,), False, {}, Dtype("U16")))


def test_four_bit_numbers_are_in_order() -> None:
    untyped = Storage("0", "", 12)
    assert call(Call.TYPED_TENSOR, (untyped, 0, (2, 3), (3, 1), False, {}, Dtype("F4"))).shape == (2, 6)
    for shape, strides in (((3, 2), (1, 3)), ((), ())):
        with pytest.raises(Refused, match="cannot be put in order"):
            call(Call.TYPED_TENSOR, (untyped, 0, shape, strides, False, {}, Dtype("F4")))


def test_an_empty_tensor_may_begin_anywhere() -> None:
    assert call(Call.TENSOR, (STORAGE, 99, (0, 3), (0, 7), False, {})).first == 0
