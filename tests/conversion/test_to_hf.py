"""A directory made of a GGUF loads in transformers and says the same tokens."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from tests.conversion.test_restore import make_quantized, run
from tests.conversion.test_to_gguf import with_tokenizer
from tests.models.architectures import make_model
from tests.models.test_parity import load

from pelton.backends.reference import ReferenceBackend
from pelton.checkpoint.checkpoint import open_checkpoint
from pelton.checkpoint.gguf.checkpoint import GgufCheckpoint
from pelton.checkpoint.gguf.writer import write_gguf
from pelton.checkpoint.outgoing import Outgoing, outgoing
from pelton.conversion.convert import Options, Progress, convert
from pelton.conversion.restore import SIDE_FILE
from pelton.conversion.to_gguf import DTYPES, TENSOR, make_gguf
from pelton.errors import CheckpointError
from pelton.runner.direct_step import logits_of

pytestmark = pytest.mark.cpu
__all__ = ["with_tokenizer"]
PROMPT = torch.tensor([[3, 9, 27, 2, 11, 5]])


def say(path: Path) -> torch.Tensor:
    model = transformers.AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32)
    with torch.no_grad():
        return model(PROMPT).logits


def test_transformers_loads_what_is_made_of_blocks(tmp_path: Path) -> None:
    make_quantized(tmp_path / "a.gguf")
    run(tmp_path / "a.gguf", tmp_path / "hf")
    tokens = PROMPT[0].tolist()
    executable = load(tmp_path / "a.gguf", ReferenceBackend("float32"))
    ours = logits_of(executable, tokens, [2, 1], chunk=64, max_blocks=2)
    theirs = say(tmp_path / "hf")[0].numpy()
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=2e-4 * float(theirs.std()))
    assert (tmp_path / "hf" / SIDE_FILE).exists()


@pytest.mark.parametrize("name", ["gemma3", "qwen2_moe-normalised", "gpt2", "phi3-longrope"])
def test_logits_are_the_same_after_both_ways(name: str, tmp_path: Path) -> None:
    make_model(name, tmp_path / "hf", torch.bfloat16)
    convert(tmp_path / "hf", tmp_path / "m.gguf", "gguf", Options(), Progress())
    convert(tmp_path / "m.gguf", tmp_path / "back", "safetensors", Options(), Progress())
    assert torch.equal(say(tmp_path / "hf"), say(tmp_path / "back"))


def test_weights_are_rounded_only_if_asked(tmp_path: Path) -> None:
    make_quantized(tmp_path / "a.gguf")
    ledger = convert(tmp_path / "a.gguf", tmp_path / "hf", "safetensors", Options(scheme="BF16"), Progress())
    assert any("rounded to BF16" in loss["what"] for loss in ledger["losses"])
    with open_checkpoint(tmp_path / "hf") as checkpoint:
        assert {info.scheme for info in checkpoint.tensors.values()} == {"BF16"}
        assert checkpoint.spec.weight_dtype == "bfloat16"


def test_a_directory_keeps_names_and_files(tmp_path: Path) -> None:
    make_model("gpt2", tmp_path / "hf")
    convert(tmp_path / "hf", tmp_path / "copy", "safetensors", Options(max_shard_bytes=1 << 17), Progress())
    assert (tmp_path / "copy" / "model.safetensors.index.json").exists()
    with open_checkpoint(tmp_path / "hf") as one, open_checkpoint(tmp_path / "copy") as two:
        assert dict(one.tensors) == dict(two.tensors)
        assert one.spec == two.spec
        assert all((one.read(name).payload == two.read(name).payload).all() for name in one.tensors)


def test_keys_that_were_changed_since_are_not_overruled(tmp_path: Path) -> None:
    make_model("llama", tmp_path / "hf")
    convert(tmp_path / "hf", tmp_path / "m.gguf", "gguf", Options(), Progress())
    raw = (tmp_path / "m.gguf").read_bytes()
    old, new = b"llama.rope.freq_base\x06\x00\x00\x00", torch.tensor([900.0]).numpy().tobytes()
    at = raw.index(old) + len(old)
    (tmp_path / "n.gguf").write_bytes(raw[:at] + new + raw[at + 4 :])
    with pytest.raises(CheckpointError, match=r"changed since it was made: layers\[0\].rope"):
        convert(tmp_path / "n.gguf", tmp_path / "back", "safetensors", Options(), Progress())


@pytest.mark.parametrize("key", ["pelton.hf.file.../../x", "pelton.hf.file./tmp/x", "pelton.hf.file.run.py"])
def test_carried_files_stay_in_the_target(key: str, tmp_path: Path) -> None:
    make_model("llama", tmp_path / "hf")
    with open_checkpoint(tmp_path / "hf") as checkpoint:
        output = make_gguf(checkpoint)
        write_gguf(tmp_path / "m.gguf", {**output.metadata, key: "x"}, output.tensors)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(CheckpointError, match="carries a file called"):
        convert(tmp_path / "m.gguf", tmp_path / "out", "safetensors", Options(), Progress())
    assert sorted(tmp_path.iterdir()) == before


def test_a_gguf_as_pytorch_says_the_same_in_transformers(tmp_path: Path) -> None:
    raw = make_quantized(tmp_path / "a.gguf")
    run(tmp_path / "a.gguf", tmp_path / "hf")
    convert(tmp_path / "a.gguf", tmp_path / "bin", "pytorch", Options(), Progress())
    assert (tmp_path / "bin" / "pytorch_model.bin").exists()
    assert torch.equal(say(tmp_path / "hf"), say(tmp_path / "bin"))
    run(tmp_path / "bin", tmp_path / "b.gguf")
    assert (tmp_path / "b.gguf").read_bytes() == raw


def test_a_norm_that_was_changed_since_is_not_overruled(tmp_path: Path) -> None:
    make_model("gemma3", tmp_path / "hf")
    name = "model.norm.weight"
    weights = load_file(tmp_path / "hf" / "model.safetensors")
    weights[name] = weights[name] * 1e-3 + 1e-9  # adding one to these and taking it away again is not exact
    save_file(weights, tmp_path / "hf" / "model.safetensors", metadata={"format": "pt"})
    run(tmp_path / "hf", tmp_path / "m.gguf")
    run(tmp_path / "m.gguf", tmp_path / "back")
    assert torch.equal(load_file(tmp_path / "back" / "model.safetensors")[name], weights[name])
    with open_checkpoint(tmp_path / "m.gguf") as checkpoint:
        assert isinstance(checkpoint, GgufCheckpoint)
        assert TENSOR + name in checkpoint.metadata
        tensors = [outgoing(each, checkpoint.read(each)) for each in checkpoint.tensors]
        at = next(index for index, each in enumerate(tensors) if each.name == "output_norm.weight")
        twos = np.full((1, tensors[at].shape[0]), 2, np.float32).view(np.uint8)
        tensors[at] = Outgoing("output_norm.weight", tensors[at].shape, "F32", lambda: twos)
        write_gguf(tmp_path / "n.gguf", checkpoint.metadata, tensors)
    run(tmp_path / "n.gguf", tmp_path / "new")
    assert (load_file(tmp_path / "new" / "model.safetensors")[name] == 1).all()


def test_defaults_that_were_changed_since_are_told(with_tokenizer: Path, tmp_path: Path) -> None:
    run(with_tokenizer, tmp_path / "m.gguf")
    with open_checkpoint(tmp_path / "m.gguf") as checkpoint:
        assert isinstance(checkpoint, GgufCheckpoint)
        tensors = [outgoing(each, checkpoint.read(each)) for each in checkpoint.tensors]
        keys = {**checkpoint.metadata, "general.sampling.temp": 1.5, DTYPES: '{"model.norm.weight": [1]}'}
        write_gguf(tmp_path / "n.gguf", keys, tensors)
    with pytest.raises(CheckpointError, match=r"temperature: 1\.5 becomes 0\.7"):
        run(tmp_path / "n.gguf", tmp_path / "back")
