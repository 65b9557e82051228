"""A GGUF that went through a directory comes back byte for byte, unless somebody changed the directory."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from pelton.checkpoint.checkpoint import open_checkpoint
from pelton.checkpoint.gguf.checkpoint import GgufCheckpoint
from pelton.checkpoint.gguf.writer import write_gguf
from pelton.checkpoint.outgoing import Outgoing, outgoing
from pelton.checkpoint.weight import Tensor
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


def read_tensors(path: Path) -> dict[str, bytes]:
    with open_checkpoint(path) as checkpoint:
        assert isinstance(checkpoint, GgufCheckpoint)
        return {
            name: each.file.rows(each.offset, 1, each.info.nbytes).tobytes() for name, each in checkpoint.stored.items()
        }


def split(source: Path, directory: Path) -> Path:
    """The model in two files; the path of the first."""
    directory.mkdir()
    with open_checkpoint(source) as checkpoint:
        assert isinstance(checkpoint, GgufCheckpoint)
        tensors = [outgoing(name, checkpoint.read(name)) for name in checkpoint.tensors]
        for number, part in enumerate((tensors[:5], tensors[5:])):
            told = {"split.no": number, "split.count": 2, "split.tensors.count": np.int32(len(tensors))}
            path = directory / f"m-{number + 1:05}-of-00002.gguf"
            write_gguf(path, {**(checkpoint.metadata if number == 0 else {}), **told}, part)
    return directory / "m-00001-of-00002.gguf"


def test_a_split_model_comes_back_as_one_file(tmp_path: Path) -> None:
    make_quantized(tmp_path / "a.gguf")
    path = split(tmp_path / "a.gguf", tmp_path / "parts")
    ledger = run(path, tmp_path / "hf")
    assert "not the parts" in json.dumps(ledger["losses"])
    run(tmp_path / "hf", tmp_path / "b.gguf")
    assert read_tensors(tmp_path / "b.gguf") == read_tensors(tmp_path / "a.gguf")
    with open_checkpoint(tmp_path / "b.gguf") as checkpoint:
        assert isinstance(checkpoint, GgufCheckpoint)
        assert not [key for key in checkpoint.metadata if key.startswith(("split.", "pelton."))]


def make_scaled(path: Path) -> None:
    """The model with one matrix of NVFP4, which has a scale of its own."""
    make_quantized(path.with_name("plain.gguf"))
    blocks = np.random.default_rng(1).integers(0, 120, (256, 4 * 36), np.uint8)
    with open_checkpoint(path.with_name("plain.gguf")) as checkpoint:
        assert isinstance(checkpoint, GgufCheckpoint)
        tensors = [outgoing(name, checkpoint.read(name)) for name in checkpoint.tensors if "ffn_up" not in name]
        tensors.append(Outgoing("blk.0.ffn_up.weight", (256, 256), "NVFP4", lambda: blocks))
        for name, number in (("scale", 0.37), ("input_scale", 5.0)):
            scale = np.array([[number]], np.float32).view(np.uint8)
            tensors.append(outgoing(f"blk.0.ffn_up.{name}", Tensor(name, (1,), "F32", scale)))
        write_gguf(path, checkpoint.metadata, tensors)


def test_scales_of_tensors_come_back(tmp_path: Path) -> None:
    make_scaled(tmp_path / "a.gguf")
    run(tmp_path / "a.gguf", tmp_path / "hf")
    run(tmp_path / "hf", tmp_path / "b.gguf")
    assert (tmp_path / "a.gguf").read_bytes() == (tmp_path / "b.gguf").read_bytes()


def test_a_scale_and_a_copy_are_not_left_alone(tmp_path: Path) -> None:
    """What belongs to a tensor that was changed would say something else than it does now."""
    make_scaled(tmp_path / "a.gguf")
    run(tmp_path / "a.gguf", tmp_path / "hf")
    path = tmp_path / "hf" / "model.safetensors"
    weights = load_file(path)
    before = weights["model.layers.0.mlp.up_proj.weight"]
    weights["model.embed_tokens.weight"] = weights["model.embed_tokens.weight"] * 2
    save_file(weights, path, metadata={"format": "pt"})
    run(tmp_path / "hf", tmp_path / "b.gguf")
    assert not [name for name in read_tensors(tmp_path / "b.gguf") if name.endswith("scale")]
    with open_checkpoint(tmp_path / "b.gguf") as checkpoint:
        found = checkpoint.read("blk.0.ffn_up.weight")
        assert found.scheme == "F32"
        assert found.payload.tobytes() == before.numpy().tobytes()


def test_blocks_of_another_size_are_refused(tmp_path: Path) -> None:
    make_quantized(tmp_path / "a.gguf")
    run(tmp_path / "a.gguf", tmp_path / "hf")
    side = load_file(tmp_path / "hf" / SIDE_FILE)
    side["blk.0.attn_q.weight"] = side["blk.0.attn_q.weight"][:, :-1].clone()
    save_file(side, tmp_path / "hf" / SIDE_FILE)
    with pytest.raises(CheckpointError, match=r"blk\.0\.attn_q\.weight has \d+ bytes, expected"):
        run(tmp_path / "hf", tmp_path / "b.gguf")
