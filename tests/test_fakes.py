"""The tiny models are what other software takes them for."""

import json

import numpy as np
import pytest
import tokenizers
from tests.fakes import CONFIGS, VOCAB_SIZE, TinyModel, tokenizer_json
from tests.steps import LIMITS

from pelton.backends.reference import ReferenceBackend
from pelton.checkpoint.checkpoint import open_checkpoint
from pelton.loading import load_model

pytestmark = pytest.mark.cpu


@pytest.mark.parametrize("architecture", CONFIGS)
def test_transformers_loads_every_tensor(architecture, tmp_path):
    transformers = pytest.importorskip("transformers")
    torch = pytest.importorskip("torch")
    transformers.utils.logging.disable_progress_bar()
    tiny = TinyModel(architecture=architecture)
    model, report = transformers.AutoModelForCausalLM.from_pretrained(
        tiny.write(tmp_path), output_loading_info=True, dtype=torch.float32
    )
    assert type(model).__name__ == architecture
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    state = model.state_dict()
    for name, array in tiny.tensors().items():
        below, _, place = name.partition(".experts.")  # transformers keeps those of a layer in one tensor
        if not place:
            np.testing.assert_array_equal(state[name].numpy(), array)
        elif place.endswith("down_proj.weight"):
            np.testing.assert_array_equal(state[f"{below}.experts.down_proj"][int(place[0])].numpy(), array)


@pytest.mark.parametrize("architecture", CONFIGS)
@pytest.mark.parametrize("dtype", ["F32", "BF16"])
def test_our_own_loader_takes_every_tensor(architecture, dtype, tmp_path):
    directory = TinyModel(architecture=architecture, dtype=dtype).write(tmp_path)
    loaded = load_model(open_checkpoint(directory), ReferenceBackend(), LIMITS, 128)
    assert loaded.dropped == ()
    assert loaded.plan.output.shape == ("S", VOCAB_SIZE)


def test_tokens_are_bytes(tmp_path):
    (tmp_path / "tokenizer.json").write_text(json.dumps(tokenizer_json()))
    tokenizer = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    text = "Hi, \n\t\0 \u00e9\u4e2d\U0001f600"
    assert tokenizer.encode(text).ids == list(text.encode())
    assert tokenizer.decode(list(text.encode())) == text
    assert tokenizer.encode("a<|im_end|>").ids == [97, 258]
    assert tokenizer.get_vocab_size() == VOCAB_SIZE


def test_seed_and_dtype_decide_the_bytes(tmp_path):
    files = {}
    for name, tiny in {
        "a": TinyModel(),
        "same": TinyModel(),
        "seed": TinyModel(seed=1),
        "bf16": TinyModel(dtype="BF16"),
    }.items():
        files[name] = (tiny.write(tmp_path / name) / "model.safetensors").read_bytes()
    assert files["a"] == files["same"]
    assert files["a"] != files["seed"]
    assert len(files["bf16"]) < 0.6 * len(files["a"])
