"""A model with mixtures of experts from its directory to its text: answers, company, kernels, and the stacked form."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from tests.fakes import VOCAB_SIZE, TinyModel, write_safetensors

from pelton import LLM, SamplingParams
from pelton.api.explain import explain_model
from pelton.checkpoint.checkpoint import open_checkpoint
from pelton.errors import CheckpointError
from pelton.loading.weights import LoadedWeights, load_weights
from pelton.models import find_model

pytestmark = pytest.mark.cpu

TINY = TinyModel(architecture="Qwen3MoeForCausalLM")
PROMPTS = [[(37 * number + 11 * place) % VOCAB_SIZE for place in range(5 + 9 * number)] for number in range(4)]
GREEDY = SamplingParams(temperature=0.0, max_tokens=12, ignore_eos=True)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return TINY.write(tmp_path_factory.mktemp("moe"))


def answers(directory: Path, prompts: list[list[int]], **settings: object) -> list[list[int]]:
    forms = [{"prompt_token_ids": prompt} for prompt in prompts]
    with LLM(str(directory), num_threads=2, max_model_len=128, **settings) as llm:
        return [list(answer.outputs[0].token_ids) for answer in llm.generate(forms, GREEDY, use_tqdm=False)]


def test_greedy_answers_are_those_of_transformers(directory: Path) -> None:
    model = transformers.AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32)
    expected = []
    for prompt in PROMPTS:
        with torch.no_grad():
            ids = model.generate(torch.tensor([prompt]), max_new_tokens=12, min_new_tokens=12, do_sample=False)
        expected.append(ids[0, len(prompt) :].tolist())
    assert answers(directory, PROMPTS, exact=True) == expected


def test_answers_do_not_depend_on_company(directory: Path) -> None:
    alone = [answers(directory, [prompt])[0] for prompt in PROMPTS]
    assert answers(directory, PROMPTS, max_prefill_chunk=16) == alone


def test_the_doctor_names_the_kernels_of_experts(directory: Path) -> None:
    explained = {op: why for op, _, why in explain_model(str(directory))}
    assert "16 float32 lanes" in explained["route"]
    assert "F32 packed in strips of 64 channels" in explained["experts"]


def stacked(tensors: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """All experts of a layer in two tensors, as transformers keeps them in memory."""
    kept = {name: array for name, array in tensors.items() if ".experts." not in name}
    for layer in filter(TINY.has_experts, range(TINY.num_layers)):
        below = f"model.layers.{layer}.mlp.experts"
        parts = {
            part: np.stack([tensors[f"{below}.{expert}.{part}_proj.weight"] for expert in range(6)])
            for part in ("gate", "up", "down")
        }
        kept[f"{below}.gate_up_proj"] = np.concatenate((parts["gate"], parts["up"]), axis=1)
        kept[f"{below}.down_proj"] = parts["down"]
    return kept


def loaded(directory: Path) -> LoadedWeights:
    checkpoint = open_checkpoint(directory)
    return load_weights(checkpoint, find_model("qwen3_moe").WEIGHTS, checkpoint.spec)


def rows(weights: LoadedWeights, name: str) -> bytes:
    return b"".join(part.payload.tobytes() for part in weights.weights[name].parts)


def test_experts_may_be_stacked_in_the_file(directory: Path, tmp_path: Path) -> None:
    TINY.write(tmp_path)
    write_safetensors(tmp_path / "model.safetensors", stacked(TINY.tensors()))
    apart, together = loaded(directory), loaded(tmp_path)
    assert set(apart.weights) == set(together.weights)
    for name in ("layers.0.experts_gate_up", "layers.2.experts_down", "layers.3.router", "layers.1.gate_up"):
        assert rows(apart, name) == rows(together, name)


def test_a_stack_of_too_few_experts_is_refused(tmp_path: Path) -> None:
    TINY.write(tmp_path)
    tensors = stacked(TINY.tensors())
    tensors["model.layers.0.mlp.experts.down_proj"] = tensors["model.layers.0.mlp.experts.down_proj"][:5]
    write_safetensors(tmp_path / "model.safetensors", tensors)
    with pytest.raises(CheckpointError, match=r"has shape \[5, 64, 32\], a matrix for each of 6 experts is expected"):
        loaded(tmp_path)


def test_an_mlp_in_a_layer_of_experts_is_refused(directory: Path, tmp_path: Path) -> None:
    TINY.write(tmp_path)
    config = (tmp_path / "config.json").read_text(encoding="utf-8")
    changed = config.replace('"mlp_only_layers": [\n    1\n  ]', '"mlp_only_layers": []')
    assert changed != config
    (tmp_path / "config.json").write_text(changed, encoding="utf-8")
    with pytest.raises(CheckpointError, match=r"model\.layers\.1\.mlp\.gate_proj\.weight: the configuration says"):
        loaded(tmp_path)
