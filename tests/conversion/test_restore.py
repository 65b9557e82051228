"""A GGUF that went through a directory comes back byte for byte, unless somebody changed the directory."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from pelton.checkpoint.checkpoint import open_checkpoint
from pelton.conversion.convert import Options, Progress, convert
from pelton.conversion.restore import SIDE_FILE
from pelton.errors import CheckpointError

pytestmark = pytest.mark.cpu


def make_quantized(path: Path, alignment: int | None = None) -> bytes:
    """A Llama with blocks of several schemes."""
    import gguf  # noqa: PLC0415

    writer = gguf.GGUFWriter(path, "llama")
    if alignment is not None:
        writer.add_custom_alignment(alignment)
    writer.add_block_count(1)
    for add, value in (
        (writer.add_context_length, 64),
        (writer.add_embedding_length, 256),
        (writer.add_feed_forward_length, 256),
        (writer.add_head_count, 4),
        (writer.add_head_count_kv, 4),
        (writer.add_vocab_size, 32),
    ):
        add(value)
    writer.add_rope_freq_base(777.0)
    writer.add_layer_norm_rms_eps(1e-5)
    draw = np.random.default_rng(0)
    kinds = gguf.GGMLQuantizationType
    names = {"attn_q": kinds.Q8_0, "attn_k": kinds.Q4_0, "attn_v": kinds.Q5_1, "attn_output": kinds.Q5_0}
    names |= {"ffn_gate": kinds.Q4_1, "ffn_up": kinds.F16, "ffn_down": kinds.BF16}
    for name, kind in names.items():
        blocks = gguf.quants.quantize(draw.normal(size=(256, 256)).astype(np.float32), kind)
        writer.add_tensor(f"blk.0.{name}.weight", blocks, raw_dtype=kind)
    for name in ("blk.0.attn_norm.weight", "blk.0.ffn_norm.weight", "output_norm.weight"):
        writer.add_tensor(name, draw.normal(size=256).astype(np.float32))
    embedding = gguf.quants.quantize(draw.normal(size=(32, 256)).astype(np.float32), kinds.Q8_0)
    writer.add_tensor("token_embd.weight", embedding, raw_dtype=kinds.Q8_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path.read_bytes()


def run(source: Path, target: Path, **options: object) -> dict[str, object]:
    to = "gguf" if target.suffix == ".gguf" else "safetensors"
    return convert(source, target, to, Options(**options), Progress())  # type: ignore[arg-type]


@pytest.mark.parametrize("alignment", [None, 8, 256])
def test_every_byte_comes_back(alignment: int | None, tmp_path: Path) -> None:
    raw = make_quantized(tmp_path / "a.gguf", alignment)
    run(tmp_path / "a.gguf", tmp_path / "hf")
    run(tmp_path / "hf", tmp_path / "b.gguf")
    assert (tmp_path / "b.gguf").read_bytes() == raw


def test_a_changed_weight_is_written_as_it_is_now(tmp_path: Path) -> None:
    make_quantized(tmp_path / "a.gguf")
    run(tmp_path / "a.gguf", tmp_path / "hf")
    path = tmp_path / "hf" / "model.safetensors"
    weights = load_file(path)
    name = "model.layers.0.mlp.gate_proj.weight"
    weights[name] = weights[name] + 1
    save_file(weights, path, metadata={"format": "pt"})
    ledger = run(tmp_path / "hf", tmp_path / "b.gguf")
    assert "tensor blk.0.ffn_gate.weight" in json.dumps(ledger["losses"])
    with open_checkpoint(tmp_path / "a.gguf") as a, open_checkpoint(tmp_path / "b.gguf") as b:
        assert b.tensors["blk.0.ffn_gate.weight"].scheme == "F32"
        assert b.read("blk.0.ffn_gate.weight").payload.tobytes() == weights[name].numpy().tobytes()
        unchanged = [each for each in a.tensors if each != "blk.0.ffn_gate.weight"]
        assert all(np.array_equal(a.read(each).payload, b.read(each).payload) for each in unchanged)


def test_a_changed_file_gives_a_new_header(tmp_path: Path) -> None:
    raw = make_quantized(tmp_path / "a.gguf")
    run(tmp_path / "a.gguf", tmp_path / "hf")
    config = json.loads((tmp_path / "hf" / "config.json").read_text())
    (tmp_path / "hf" / "config.json").write_text(json.dumps({**config, "rms_norm_eps": 1e-3}))
    ledger = run(tmp_path / "hf", tmp_path / "b.gguf")
    assert "file config.json" in json.dumps(ledger["losses"])
    assert (tmp_path / "b.gguf").read_bytes() != raw
    with open_checkpoint(tmp_path / "b.gguf") as b:
        assert b.spec.norm_eps == 1e-3
        assert b.tensors["blk.0.ffn_gate.weight"].scheme == "Q4_1"


def test_a_side_file_of_something_else_is_refused(tmp_path: Path) -> None:
    make_quantized(tmp_path / "a.gguf")
    run(tmp_path / "a.gguf", tmp_path / "hf")
    save_file({"x": torch.zeros(3)}, tmp_path / "hf" / SIDE_FILE)
    with pytest.raises(CheckpointError, match=r"holds no 'gguf\.header'"):
        run(tmp_path / "hf", tmp_path / "b.gguf")


def test_a_copy_of_the_directory_keeps_the_blocks(tmp_path: Path) -> None:
    raw = make_quantized(tmp_path / "a.gguf")
    run(tmp_path / "a.gguf", tmp_path / "hf")
    run(tmp_path / "hf", tmp_path / "copy")
    run(tmp_path / "copy", tmp_path / "b.gguf")
    assert (tmp_path / "b.gguf").read_bytes() == raw
