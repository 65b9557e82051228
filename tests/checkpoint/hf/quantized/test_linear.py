"""Several tensors are one matrix; whatever is missing, of another kind or left over is told."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from tests.checkpoint.hf.quantized.stored import as_awq, as_gptq, make_quantization, place, random_linear

from pelton.checkpoint.hf.quantized.linear import find_quantized
from pelton.errors import CheckpointError

pytestmark = pytest.mark.unit

LINEAR = random_linear(16, 128, group_size=32)
GPTQ = make_quantization("gptq", group_size=32, zero_offset=1)


def test_a_matrix_has_the_name_of_a_weight_and_the_bytes_of_its_parts(tmp_path: Path) -> None:
    stored = as_gptq(LINEAR)
    (linear,) = find_quantized(place(tmp_path, {**stored, "bias": torch.zeros(16)}, "a.b"), GPTQ).values()
    info = linear.info
    assert (info.name, info.shape, info.scheme) == ("a.b.weight", (16, 128), "INT4_G32")
    assert info.nbytes == sum(tensor.nbytes for tensor in stored.values())


def test_rows_are_made_when_they_are_asked_for_and_anew_each_time(tmp_path: Path) -> None:
    tensor = find_quantized(place(tmp_path, as_gptq(LINEAR)), GPTQ)["x.weight"].read()
    first, second = tensor.payload, tensor.payload
    np.testing.assert_array_equal(first, second)
    assert not np.shares_memory(first, second)
    assert sum(source.nbytes for source in tensor.sources) == sum(t.nbytes for t in as_gptq(LINEAR).values())


def refused(directory: Path, message: str, quantization=GPTQ, **changes: torch.Tensor | None) -> None:
    stored = {name: tensor for name, tensor in {**as_gptq(LINEAR), **changes}.items() if tensor is not None}
    with pytest.raises(CheckpointError, match=message):
        find_quantized(place(directory, stored), quantization)


def test_broken_linears_are_refused(tmp_path: Path) -> None:
    refused(tmp_path / "a", "x: has qweight and no scales", scales=None)
    refused(tmp_path / "b", r"x\.scales: has dtype I8", scales=torch.zeros(4, 16, dtype=torch.int8))
    refused(tmp_path / "c", r"x\.scales: has shape .3, 16., expected .4, 16.", scales=torch.zeros(3, 16))
    refused(tmp_path / "d", r"expected .2, 2. with 4 bits and group_size 64", make_quantization("gptq", group_size=64))
    refused(tmp_path / "e", r"holds x\.weight beside x\.qweight", weight=torch.zeros(16, 128))
    refused(tmp_path / "f", "expected a matrix", qweight=torch.zeros(4, dtype=torch.int32))


def test_a_configuration_without_quantized_tensors_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"no tensor is called '\*\.qweight' with dtype I32"):
        find_quantized(place(tmp_path, {"weight": torch.zeros(2, 2)}), GPTQ)


def test_rows_that_do_not_fill_tiles_are_refused(tmp_path: Path) -> None:
    odd = random_linear(8, 48)
    with pytest.raises(CheckpointError, match="has 48 inputs, which are not a multiple of 32"):
        find_quantized(place(tmp_path, as_awq(odd)), make_quantization("awq"))
