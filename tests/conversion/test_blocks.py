"""Groups of integers become blocks of a GGUF exactly where those can hold them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.models.test_parity import load
from tests.models.test_quantized_parity import METHODS, logits, write_pair

from pelton.backends.reference import ReferenceBackend
from pelton.checkpoint.checkpoint import open_checkpoint
from pelton.checkpoint.scheme import row_bytes
from pelton.checkpoint.weight import Tensor
from pelton.conversion.blocks import as_blocks, find_blocks
from pelton.conversion.convert import Options, Progress, convert
from pelton.conversion.dense import has_numbers

pytestmark = pytest.mark.cpu

SYMMETRIC = {"gptq-int8-row": "Q8_0", "packed-int8-row": "Q8_0", "int8-row": "Q8_0"}


def make(scheme: str, zero: int, scale: float) -> Tensor:
    width = row_bytes(scheme, 256)
    rows = np.random.default_rng(0).integers(0, 256, (3, width), np.uint8)
    group = rows.reshape(-1, width // (256 // int(scheme.partition("_G")[2])))
    group[:, :4] = np.frombuffer(np.float32(scale).tobytes(), np.uint8)
    group[:, 4] = zero
    return Tensor("x", (3, 256), scheme, rows)


@pytest.mark.parametrize("scheme", ["INT4_G32", "INT4_G128", "INT8_G32", "INT8_G128"])
def test_symmetric_groups_are_blocks(scheme: str) -> None:
    tensor = make(scheme, 8 if "4_" in scheme else 128, -0.3330078125)
    target = find_blocks(tensor)
    assert target == ("Q4_0" if "4_" in scheme else "Q8_0")
    assert has_numbers(tensor, Tensor("x", (3, 256), target, as_blocks(tensor)))


@pytest.mark.parametrize(("zero", "scale"), [(7, 0.5), (8, 0.1), (8, 1e6), (8, 1e-9)])
def test_what_a_block_cannot_hold_is_none(zero: int, scale: float) -> None:
    assert find_blocks(make("INT4_G32", zero, scale)) is None


def test_other_schemes_are_none() -> None:
    assert find_blocks(Tensor("x", (1, 4), "F32", np.zeros((1, 16), np.uint8))) is None


@pytest.mark.parametrize("name", METHODS)
def test_a_quantized_model_gives_the_same_logits_as_a_gguf(name: str, tmp_path: Path) -> None:
    quantized, _ = write_pair(tmp_path, name)
    convert(quantized, tmp_path / "m.gguf", "gguf", Options(), Progress())
    with open_checkpoint(tmp_path / "m.gguf") as checkpoint:
        assert checkpoint.tensors["blk.0.ffn_up.weight"].scheme == SYMMETRIC.get(name, "F32")
    expected = logits(load(quantized, ReferenceBackend("float32")))
    np.testing.assert_array_equal(logits(load(tmp_path / "m.gguf", ReferenceBackend("float32"))), expected)
    convert(tmp_path / "m.gguf", tmp_path / "back", "safetensors", Options(), Progress())
    np.testing.assert_array_equal(logits(load(tmp_path / "back", ReferenceBackend("float32"))), expected)
    assert "quantization_config" not in (tmp_path / "back" / "config.json").read_text()


def test_a_copy_stays_quantized_and_a_scheme_makes_it_dense(tmp_path: Path) -> None:
    quantized, _ = write_pair(tmp_path, "gptq-int4-g128")
    expected = logits(load(quantized, ReferenceBackend("float32")))
    convert(quantized, tmp_path / "copy", "safetensors", Options(), Progress())
    np.testing.assert_array_equal(logits(load(tmp_path / "copy", ReferenceBackend("float32"))), expected)
    with open_checkpoint(quantized) as one, open_checkpoint(tmp_path / "copy") as two:
        assert dict(one.tensors) == dict(two.tensors)
    ledger = convert(quantized, tmp_path / "float", "safetensors", Options(scheme="F32"), Progress())
    assert any(loss["field"] == "quantization_config" for loss in ledger["losses"])
    np.testing.assert_array_equal(logits(load(tmp_path / "float", ReferenceBackend("float32"))), expected)
