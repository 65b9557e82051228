from pathlib import Path
from typing import Any

import pytest
from tests.fakes import TinyModel
from tests.inspection.models import change, found, inspect, write
from tests.model_files import f32, gguf_bytes, gguf_matrix, llama_gguf, llama_metadata, safetensors_bytes, u32

pytestmark = pytest.mark.unit
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, set()),
        ({"auto_map": {"AutoModel": "x.Model"}}, {"config.code"}),
        ({"_attn_implementation_internal": "someone/kernel"}, {"config.code"}),
        ({"_attn_implementation": "sdpa"}, set()),
        ({"rope_parameters": {"rope_type": "default", "rope_theta": 5.0}}, {"config.rope-twice"}),
        ({"rope_parameters": {"rope_type": "default", "rope_theta": 5000.0}}, set()),
        ({"rope_parameters": YARN, "rope_scaling": {**YARN, "factor": 2.0}}, {"config.rope-twice"}),
        ({"rope_scaling": YARN}, set()),  # 128 stretched by 4 is 512
        ({"rope_scaling": {**YARN, "factor": 3.0}}, {"config.rope-original"}),
        ({"rope_scaling": {**YARN, "original_max_position_embeddings": 512}}, set()),  # stretched to 2048
        ({"rope_scaling": {**LLAMA3, "original_max_position_embeddings": 64}}, set()),
        ({"rope_scaling": {**LLAMA3, "original_max_position_embeddings": 512}}, {"config.rope-original"}),
        ({"original_max_position_embeddings": 64}, {"config.rope-missing"}),
        ({"torch_dtype": "float16"}, {"config.dtype"}),
        ({"model_type": "mistral"}, {"config.model-type"}),
        ({"model_type": None}, set()),
    ],
)
def test_fields(tmp_path: Path, fields: dict[str, Any], expected: set[str]) -> None:
    write(tmp_path, config=fields)
    assert {id_ for id_ in found(tmp_path) if id_.startswith("config.")} == expected


def test_float16_of_a_family_that_overflows(tmp_path: Path) -> None:
    path = write(tmp_path, "Gemma3ForCausalLM", config={"torch_dtype": "float16"}) / "model.safetensors"
    assert "config.float16" not in found(tmp_path)
    arrays = TinyModel(architecture="Gemma3ForCausalLM").tensors()
    body = {name: array.astype("<f2").tobytes() for name, array in arrays.items()}
    header, end = {}, 0
    for name, raw in body.items():
        header[name] = {"dtype": "F16", "shape": list(arrays[name].shape), "data_offsets": [end, end := end + len(raw)]}
    path.write_bytes(safetensors_bytes(header, b"".join(body.values())))
    assert "config.float16" in found(tmp_path)


def test_a_tokenizer_that_counts_on_more_positions(tmp_path: Path) -> None:
    write(tmp_path)
    change(tmp_path / "tokenizer_config.json", {"model_max_length": 4096})
    assert "config.rope-missing" in found(tmp_path)
    change(tmp_path / "tokenizer_config.json", {"model_max_length": 10**30})
    assert "config.rope-missing" not in found(tmp_path)


def test_a_base_that_a_gguf_leaves_out(tmp_path: Path) -> None:
    path = tmp_path / "x.gguf"
    path.write_bytes(llama_gguf())
    assert "config.rope-base" not in found(path)
    path.write_bytes(llama_gguf(ARCH__rope__freq_base=None))
    assert "config.rope-base" in found(path)
    path.write_bytes(llama_gguf(ARCH__rope__freq_base=f32(10000.0)))
    assert "config.rope-base" not in found(path)


@pytest.mark.parametrize(("added", "expected"), [(0.0, "config.tie-twice"), (0.5, "config.tied-head")])
def test_a_head_that_is_stored_although_it_is_tied(tmp_path: Path, added: float, expected: str) -> None:
    def store(tensors: dict) -> None:  # type: ignore[type-arg]
        tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"] + added

    write(tmp_path, "Qwen2ForCausalLM", tensors=store)
    assert {id_ for id_ in found(tmp_path) if "tie" in id_} == {expected}


@pytest.mark.parametrize(("hidden", "expected"), [(4096, True), (2048, False)])
def test_a_tied_head_in_a_large_model(tmp_path: Path, hidden: int, expected: bool) -> None:
    """The sizes of the file, without layers: a conversion may have lost the head."""
    metadata = llama_metadata(ARCH__embedding_length=u32(hidden))
    (tmp_path / "x.gguf").write_bytes(gguf_bytes(metadata, [gguf_matrix("token_embd.weight", 8, hidden)]))
    assert ("config.tied-large" in found(tmp_path / "x.gguf")) == expected


def test_fields_that_are_ignored_are_named(tmp_path: Path) -> None:
    write(tmp_path, config={"_name_or_path": "x", "initializer_range": 0.02})
    ignored = {item.why: item.what for item in inspect(tmp_path).ignored}
    assert "initializer_range" in ignored["config.json: identity, training, or read from elsewhere"]
    assert ignored["config.json: notes of the program that wrote it"] == "_name_or_path"
