"""What conversions lost in public, tried on ours: every family there and back, with numbers that show a loss."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.catalogue.configs import FAMILIES, SCALINGS, make_config, read, scaled_ropes, with_rope
from tests.catalogue.tensors import Floats, make_tensors
from tests.fakes import write_safetensors

from pelton.checkpoint.checkpoint import open_checkpoint
from pelton.checkpoint.dequantize import dequantize
from pelton.checkpoint.gguf.container import read_container
from pelton.conversion.convert import Options, Progress, convert
from pelton.conversion.spec_loss import is_same_rope
from pelton.errors import CheckpointError

pytestmark = pytest.mark.unit

# Phi-3 has no YaRN: its first files call LongRoPE so.
PAIRS = [(family, kind) for family in FAMILIES for kind in SCALINGS if (family, kind) != ("phi3", "yarn")]
GPT2 = {"architectures": ["GPT2LMHeadModel"], "n_embd": 48, "n_head": 4, "n_layer": 2, "vocab_size": 96}
# What a GGUF cannot say of the small models, and is put right for these tests.
SAYABLE: dict[str, dict[str, Any]] = {
    "gemma2": {"query_pre_attn_scalar": 12},
    "gemma3": {"query_pre_attn_scalar": 12},
    "qwen2_moe": {"decoder_sparse_step": 1},
}


def write(directory: Path, config: Mapping[str, Any]) -> dict[str, Floats]:
    """A directory of the model that `config` describes, without a tokenizer; its tensors."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "config.json").write_text(json.dumps({**config, "dtype": "float32"}))
    tensors = make_tensors(read(config))
    write_safetensors(directory / "model.safetensors", tensors)
    return tensors


def to_gguf(source: Path, target: Path, **options: Any) -> dict[str, Any]:
    return convert(source, target, "gguf", Options(**options), Progress())


def numbers(path: Path) -> dict[str, Floats]:
    """Every tensor of a checkpoint."""
    with open_checkpoint(path) as checkpoint:
        return {name: dequantize(checkpoint.read(name)) for name in checkpoint.tensors}


@pytest.mark.parametrize(("family", "kind"), PAIRS)
def test_a_scaling_is_written_or_refused(family: str, kind: str, tmp_path: Path) -> None:
    """A1, A3, A6, A13, A17: the scaling of some classes was never written, and nobody noticed below the old context."""
    config = with_rope(make_config(family, **SAYABLE.get(family, {})), SCALINGS[kind], version=5)
    if family == "gemma3":
        config["rope_parameters"]["sliding_attention"]["rope_theta"] = 10000.0  # the one a GGUF implies
    write(tmp_path / "hf", config)
    if kind == "dynamic":
        with pytest.raises(CheckpointError, match="rope"):
            to_gguf(tmp_path / "hf", tmp_path / "x.gguf")
        return
    to_gguf(tmp_path / "hf", tmp_path / "x.gguf")
    with open_checkpoint(tmp_path / "x.gguf") as made:
        ours, theirs = read(config), made.spec
    assert all(
        is_same_rope(one.rope, other.rope, ours.max_position)
        for one, other in zip(ours.layers, theirs.layers, strict=True)
    )
    assert scaled_ropes(theirs)


def test_the_divisors_of_llama3_are_written(tmp_path: Path) -> None:
    """A3."""
    write(tmp_path / "hf", with_rope(make_config("llama"), SCALINGS["llama3"], version=4))
    to_gguf(tmp_path / "hf", tmp_path / "x.gguf")
    divisors = numbers(tmp_path / "x.gguf")["rope_freqs.weight"]
    assert divisors.shape == (6,)
    assert divisors.min() == 1.0
    assert divisors.max() == 8.0


@pytest.mark.parametrize("family", [*FAMILIES, "gpt2"])
def test_there_and_back_is_the_same(family: str, tmp_path: Path) -> None:
    """B1, B2, B4 to B6, B13, C2 to C4, E4, I11: byte for byte, where logits of a model without positions hide it."""
    config = GPT2 if family == "gpt2" else make_config(family, **SAYABLE.get(family, {}))
    if family == "llama":
        config |= {"attention_bias": True, "mlp_bias": True}
    tensors = write(tmp_path / "hf", config)
    to_gguf(tmp_path / "hf", tmp_path / "x.gguf")
    convert(tmp_path / "x.gguf", tmp_path / "back", "safetensors", Options(), Progress())
    back = numbers(tmp_path / "back")
    assert back.keys() == tensors.keys()
    assert all(np.array_equal(back[name].view("<u4"), tensors[name].view("<u4")) for name in tensors)
    with open_checkpoint(tmp_path / "back") as checkpoint:
        assert checkpoint.spec == read({**config, "dtype": "float32"})


def paired(rows: Floats, num_heads: int) -> Floats:
    """Half-split dimensions of each head as neighbours, which is what the format's readers of this family expect."""
    halves = rows.reshape(num_heads, 2, rows.shape[0] // num_heads // 2, *rows.shape[1:])
    return halves.swapaxes(1, 2).reshape(rows.shape)


def test_keys_are_permuted_by_their_own_heads(tmp_path: Path) -> None:
    """B1, B4, B6, E4: four heads of queries, two of keys; weights and biases."""
    tensors = write(tmp_path / "hf", make_config("llama", attention_bias=True))
    to_gguf(tmp_path / "hf", tmp_path / "x.gguf")
    made = numbers(tmp_path / "x.gguf")
    for part, heads in (("q", 4), ("k", 2)):
        for kind in ("weight", "bias"):
            expected = paired(tensors[f"model.layers.1.self_attn.{part}_proj.{kind}"], heads)
            np.testing.assert_array_equal(made[f"blk.1.attn_{part}.{kind}"], expected)
    np.testing.assert_array_equal(made["blk.1.attn_v.weight"], tensors["model.layers.1.self_attn.v_proj.weight"])


def test_what_was_done_to_a_tensor_is_on_record(tmp_path: Path) -> None:
    """B3: a permutation that nobody wrote down was taken for a bug."""
    write(tmp_path / "hf", make_config("llama"))
    ledger = to_gguf(tmp_path / "hf", tmp_path / "x.gguf")
    text = json.dumps(ledger)
    assert "blk.1.attn_k.weight" in text
    assert "model.layers.1.self_attn.k_proj.weight" in text
    (record,) = [record for record in ledger["tensors"] if record["target"] == "blk.1.attn_k.weight"]
    assert record["steps"]


def test_twelve_experts_are_stacked_by_number(tmp_path: Path) -> None:
    """B17."""
    config = make_config("qwen3_moe", num_experts=12, norm_topk_prob=True)
    tensors = write(tmp_path / "hf", config)
    for name, array in tensors.items():
        if ".experts." in name:
            array[:] = float(name.split(".experts.")[1].partition(".")[0])
    write_safetensors(tmp_path / "hf" / "model.safetensors", dict(sorted(tensors.items())))
    to_gguf(tmp_path / "hf", tmp_path / "x.gguf")
    made = numbers(tmp_path / "x.gguf")
    for part in ("gate", "up", "down"):
        assert made[f"blk.1.ffn_{part}_exps.weight"][:, 0, 0].tolist() == [float(expert) for expert in range(12)]


def test_norms_of_gemma_are_written_with_one_added(tmp_path: Path) -> None:
    """C2, C3."""
    tensors = write(tmp_path / "hf", make_config("gemma3", **SAYABLE["gemma3"]))
    to_gguf(tmp_path / "hf", tmp_path / "x.gguf")
    made = numbers(tmp_path / "x.gguf")
    np.testing.assert_array_equal(made["output_norm.weight"], tensors["model.norm.weight"] + np.float32(1))
    q_norm = tensors["model.layers.2.self_attn.q_norm.weight"]
    np.testing.assert_array_equal(made["blk.2.attn_q_norm.weight"], q_norm + np.float32(1))


@pytest.mark.parametrize("family", FAMILIES)
def test_the_base_is_always_written(family: str, tmp_path: Path) -> None:
    """A15."""
    write(tmp_path / "hf", make_config(family, **SAYABLE.get(family, {})))
    to_gguf(tmp_path / "hf", tmp_path / "x.gguf")
    metadata = read_container(tmp_path / "x.gguf").metadata
    assert f"{metadata['general.architecture']}.rope.freq_base" in metadata


@pytest.mark.parametrize(("pattern", "is_sayable"), [([1, 1, 1, 0], True), ([1, 0, 0, 1], False)])
def test_layers_without_positions_that_a_gguf_cannot_say(pattern: list[int], is_sayable: bool, tmp_path: Path) -> None:
    """I9: every fourth layer is built into the format's readers."""
    write(tmp_path / "hf", make_config("smollm3", no_rope_layers=pattern))
    if is_sayable:
        to_gguf(tmp_path / "hf", tmp_path / "x.gguf")
        return
    with pytest.raises(CheckpointError, match=r"layers\[1\]\.rope"):
        to_gguf(tmp_path / "hf", tmp_path / "x.gguf")
    assert not (tmp_path / "x.gguf").exists()


def test_numbers_that_a_cast_changes_are_told(tmp_path: Path) -> None:
    """K3, K4: float16 has no room for large numbers and rounds small ones to nothing."""
    write(tmp_path / "hf", make_config("llama"))
    ledger = to_gguf(tmp_path / "hf", tmp_path / "x.gguf", scheme="F16")
    assert any(loss["field"].startswith("tensor ") for loss in ledger["losses"])


def test_rows_without_a_token_are_kept(tmp_path: Path) -> None:
    """F15: an embedding was cut to the size of the tokenizer."""
    write(tmp_path / "hf", make_config("gemma3", vocab_size=133, **SAYABLE["gemma3"]))
    to_gguf(tmp_path / "hf", tmp_path / "x.gguf")
    assert numbers(tmp_path / "x.gguf")["token_embd.weight"].shape == (133, 48)


def test_files_that_matter_come_along(tmp_path: Path) -> None:
    """G7, H4, H6: generation defaults and templates were left behind."""
    write(tmp_path / "hf", make_config("llama"))
    files = {"generation_config.json": '{"eos_token_id": [3, 4], "temperature": 0.5}', "chat_template.jinja": "T"}
    for name, content in files.items():
        (tmp_path / "hf" / name).write_text(content)
    to_gguf(tmp_path / "hf", tmp_path / "x.gguf")
    convert(tmp_path / "x.gguf", tmp_path / "back", "safetensors", Options(), Progress())
    for name, content in files.items():
        assert (tmp_path / "back" / name).read_text() == content
    with open_checkpoint(tmp_path / "x.gguf") as checkpoint:
        assert set(checkpoint.generation.eos_token_ids) == {3, 4}
        assert checkpoint.generation.temperature == 0.5


def test_an_adapter_is_not_lost_in_silence(tmp_path: Path) -> None:
    """D14."""
    write(tmp_path / "hf", make_config("llama"))
    (tmp_path / "hf" / "adapter_model.safetensors").write_bytes(b"x")
    with pytest.raises(CheckpointError, match=r"adapter_model\.safetensors: an adapter, which is not merged"):
        to_gguf(tmp_path / "hf", tmp_path / "x.gguf")
    ledger = to_gguf(tmp_path / "hf", tmp_path / "x.gguf", accepted=("file",))
    assert "adapter_model.safetensors" in json.dumps(ledger["losses"])
