"""The table of schemes agrees with the format's own."""

from __future__ import annotations

import pytest
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType

from pelton.checkpoint.scheme import BY_GGUF_ID, SCHEMES, USABLE, get_scheme, row_bytes
from pelton.errors import CheckpointError

pytestmark = pytest.mark.unit


NOT_IN_THE_PACKAGE = {42}  # newer than it
OUTDATED_IN_THE_PACKAGE = {9}  # its Q8_1 has floats of four bytes; those of the format have two


def test_ids_and_sizes_are_those_of_the_format() -> None:
    for gguf_id in BY_GGUF_ID.keys() - NOT_IN_THE_PACKAGE - OUTDATED_IN_THE_PACKAGE:
        scheme = BY_GGUF_ID[gguf_id]
        kind = GGMLQuantizationType(gguf_id)
        assert kind.name == scheme.name
        assert GGML_QUANT_SIZES[kind] == (scheme.block_size, scheme.block_bytes)


def test_names_and_ids_are_unique() -> None:
    assert len(BY_GGUF_ID) == sum(scheme.gguf_id is not None for scheme in SCHEMES.values())
    assert set(SCHEMES) >= USABLE


def test_every_type_that_was_not_removed_is_known() -> None:
    assert set(range(43)) - set(BY_GGUF_ID) == {4, 5, 31, 32, 33, 36, 37, 38}


def test_row_bytes() -> None:
    assert (row_bytes("F32", 3), row_bytes("Q4_0", 64), row_bytes("Q6_K", 0)) == (12, 36, 0)
    with pytest.raises(CheckpointError, match="not a multiple of 32"):
        row_bytes("Q4_0", 63)


def test_unknown_names_are_refused() -> None:
    with pytest.raises(CheckpointError, match="'Q4_K_M' is not a known storage scheme"):
        get_scheme("Q4_K_M")
