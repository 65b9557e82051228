"""Matrices become blocks, everything else stays, and the ledger says which is which."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.models.architectures import CASES, make_model

from pelton.checkpoint.outgoing import Outgoing
from pelton.conversion.convert import Options, Progress, convert
from pelton.conversion.quantize import SCHEMES, choose_scheme
from pelton.errors import CheckpointError
from pelton.verification.verify import Options as VerifyOptions
from pelton.verification.verify import Progress as VerifyProgress
from pelton.verification.verify import verify

pytestmark = pytest.mark.cpu
SIZES = {
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
}
# Mean KL that a model of random weights may move by; what it moves by is printed if it is more.
MOST = {"Q8_0": 2e-3, "Q6_K": 2e-2, "Q4_K": 0.6, "Q4_0": 0.9}


@pytest.fixture
def wide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    family, fields = CASES["llama"]
    monkeypatch.setitem(
        CASES, "llama", (family, {**fields, **SIZES, "num_hidden_layers": 2, "initializer_range": 0.06})
    )
    make_model("llama", tmp_path / "hf")
    return tmp_path / "hf"


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_quantized_model_is_near_its_source(scheme: str, wide: Path, tmp_path: Path) -> None:
    ledger = convert(wide, tmp_path / "m.gguf", "gguf", Options(scheme=scheme), Progress())
    schemes = {record["target"]: record["scheme"] for record in ledger["tensors"]}
    assert schemes["blk.0.attn_q.weight"] == scheme
    assert schemes["blk.0.attn_norm.weight"] == "F32"
    assert schemes["token_embd.weight"] == ("Q6_K" if scheme.startswith("Q4") else scheme)
    report = verify(wide, tmp_path / "m.gguf", VerifyOptions(budget=10.0), VerifyProgress())
    assert report.verdict == "LOSSY-DECLARED"
    assert report.logits is not None
    kls = [kl for each in report.logits.prompts.values() for kl in each]
    assert sum(kls) / len(kls) < MOST[scheme]


def test_blocks_are_not_rounded_again(wide: Path, tmp_path: Path) -> None:
    convert(wide, tmp_path / "m.gguf", "gguf", Options(scheme="Q8_0"), Progress())
    convert(tmp_path / "m.gguf", tmp_path / "back", "safetensors", Options(), Progress())
    with pytest.raises(CheckpointError, match="GGUF"):
        convert(tmp_path / "m.gguf", tmp_path / "n.gguf", "gguf", Options(scheme="Q4_K"), Progress())
    with pytest.raises(CheckpointError, match="a scheme of GGUF"):
        convert(wide, tmp_path / "other", "safetensors", Options(scheme="Q4_K"), Progress())


@pytest.mark.parametrize(
    ("name", "shape", "chosen"),
    [
        ("blk.0.ffn_up.weight", (8, 256), "Q4_K"),
        ("blk.0.ffn_up.weight", (8, 96), "Q8_0"),
        ("blk.0.ffn_up.weight", (8, 33), "F32"),
        ("output.weight", (8, 256), "Q6_K"),
        ("blk.0.ffn_gate_inp.weight", (8, 256), "F32"),
        ("blk.0.attn_norm.weight", (256,), "F32"),
        ("blk.0.attn_q.bias", (256,), "F32"),
        ("blk.0.ffn_up_exps.weight", (4, 8, 256), "Q4_K"),
    ],
)
def test_each_tensor_has_its_scheme(name: str, shape: tuple[int, ...], chosen: str) -> None:
    assert choose_scheme(Outgoing(name, shape, "F32", lambda: np.zeros((1, 4), np.uint8)), "Q4_K") == chosen
