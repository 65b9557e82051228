"""Fields are read with their type, and what is left over is named."""

from __future__ import annotations

import math
from typing import Any

import pytest

from pelton.checkpoint.fields import Fields
from pelton.errors import CheckpointError

pytestmark = pytest.mark.unit


def fields(**values: Any) -> Fields:
    return Fields("file", values)


def test_values_and_defaults() -> None:
    f = fields(a=3, b=0.5, c=True, d="x", e=[1, 2.5], g={"h": 1}, n=None)
    assert (f.integer("a"), f.number("b"), f.number("a"), f.flag("c", False)) == (3, 0.5, 3.0, True)
    assert (f.text("d"), f.numbers("e"), f.numbers("n")) == ("x", (1.0, 2.5), None)
    nested = f.mapping("g")
    assert nested is not None
    assert nested.integer("h") == 1
    assert f.mapping("n") is None
    for absent in ("n", "z"):
        assert (f.integer(absent, 4), f.number(absent, 4.0), f.flag(absent, True)) == (4, 4.0, True)
    assert f.choice("d", {"x": 1, "y": 2}, "y") == 1
    assert f.choice("z", {"x": 1, "y": 2}, "y") == 2
    f.check_all_read()


def test_null_is_a_value_where_it_may_be_one() -> None:
    f = fields(n=None, a=3)
    assert (f.nullable_integer("n", 4), f.nullable_integer("z", 4), f.nullable_integer("a", 4)) == (None, 4, 3)
    assert (f.nullable_number("n", 4.0), f.nullable_number("z", 4.0), f.nullable_number("a", 4.0)) == (None, 4.0, 3.0)
    assert f.has("n")
    assert not f.has("z")


@pytest.mark.parametrize("value", [True, 1.0, "1", 0, -1, 1 << 60, [1]])
def test_what_is_not_a_positive_whole_number(value: Any) -> None:
    with pytest.raises(CheckpointError, match=r"file: a is .*; expected a whole number of at least 1"):
        fields(a=value).integer("a")


@pytest.mark.parametrize("value", [True, "1", math.nan, math.inf, 10**400, [1.0]])
def test_what_is_not_a_number(value: Any) -> None:
    with pytest.raises(CheckpointError, match=r"file: a is .*; expected a finite number"):
        fields(a=value).number("a")


def test_other_types() -> None:
    with pytest.raises(CheckpointError, match="expected true or false"):
        fields(a=1).flag("a", True)
    with pytest.raises(CheckpointError, match="expected text"):
        fields(a=1).text("a")
    with pytest.raises(CheckpointError, match="expected a list"):
        fields(a=1).numbers("a")
    with pytest.raises(CheckpointError, match=r"a\[1\] is 'x'"):
        fields(a=[1, "x"]).numbers("a")
    with pytest.raises(CheckpointError, match="expected an object"):
        fields(a=1).mapping("a")
    with pytest.raises(CheckpointError, match="above 0"):
        fields(a=0.0).positive("a")
    with pytest.raises(CheckpointError, match="Did you mean 'silu'"):
        fields(a="silo").choice("a", {"silu": 1}, "silu")


def test_required_fields() -> None:
    for read in (Fields.integer, Fields.number, Fields.text):
        with pytest.raises(CheckpointError, match="file: a is missing"):
            read(fields(), "a")


def test_require_knows_false_from_zero() -> None:
    fields(a=False).require("a", False)
    fields(a=None).require("a")
    fields().require("a")
    for value in (0, True, "False", 1.5):
        with pytest.raises(CheckpointError, match="which is not supported; expected False"):
            fields(a=value).require("a", False)
    with pytest.raises(CheckpointError, match="expected nothing"):
        fields(a=1).require("a")


def test_what_is_left_over_is_named() -> None:
    f = fields(size=1, sizes=2, nothing=None, noise=3)
    f.integer("size")
    with pytest.raises(CheckpointError, match=r"the field 'sizes' \(2\) is not known.*Did you mean 'size'"):
        f.check_all_read({"noise"})
    f.check_all_read({"noise", "sizes"})
