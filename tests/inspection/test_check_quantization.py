from pathlib import Path

import pytest
from tests.inspection.models import found, write
from tests.model_files import GgufTensor, gguf_bytes, gguf_matrix, llama_metadata

from pelton.checkpoint.contract import TensorInfo
from pelton.inspection.check_quantization import check_quantization, find_exceptions, find_without_scales
from pelton.inspection.subject import Subject

pytestmark = pytest.mark.unit


def info(name: str, scheme: str) -> TensorInfo:
    return TensorInfo(name, (2, 2), scheme, 4)


@pytest.mark.parametrize(
    ("weight", "scheme", "scale"),
    [
        ("a.qweight", "I32", "a.scales"),
        ("a.weight_packed", "I32", "a.weight_scale"),
        ("a.weight", "F8_E4M3", "a.weight_scale_inv"),
        ("a.weight", "F8_E4M3", "a.weight_scale"),
        ("a_blocks", "U8", "a_scales"),
    ],
)
def test_a_scale_that_is_not_stored(weight: str, scheme: str, scale: str) -> None:
    tensors = {weight: info(weight, scheme)}
    assert find_without_scales({weight}, tensors) == [weight]
    assert find_without_scales({weight, scale}, tensors) == []


def test_some_scales_of_nvfp4() -> None:
    subject = Subject(path=Path("x"), format="gguf")
    tensors = {"a.weight": info("a.weight", "NVFP4"), "b.weight": info("b.weight", "NVFP4")}
    assert check_quantization(subject, tensors, tensors) == []
    tensors["c.weight"] = info("c.weight", "NVFP4_SCALED")
    (finding,) = check_quantization(subject, tensors, tensors)
    assert finding.id == "quantization.some-scales"
    assert "a.weight and b.weight" in finding.sentence


def test_exceptions_that_name_nothing() -> None:
    config = {"quantization_config": {"ignore": ["lm_head", "re:.*router$", "model.gone"]}}
    assert find_exceptions(config) == ["lm_head", "re:.*router$", "model.gone"]
    subject = Subject(path=Path("x"), format="safetensors", documents={"config.json": config})
    (finding,) = check_quantization(subject, ["lm_head.weight", "model.layers.0.router.weight"], {})
    assert (finding.id, finding.sentence) == ("quantization.ignore", "model.gone: no tensor has such a name.")


def test_an_expression_that_could_run_for_ever_is_not_run() -> None:
    config = {"quantization_config": {"ignore": ["re:(a+)+$", "re:("]}}
    subject = Subject(path=Path("x"), format="safetensors", documents={"config.json": config})
    (finding,) = check_quantization(subject, ["a" * 100_000 + "b"], {})
    assert finding.sentence == "re:(: no tensor has such a name."


def test_scales_of_a_cache(tmp_path: Path) -> None:
    def add(tensors: dict) -> None:  # type: ignore[type-arg]
        tensors["model.layers.0.self_attn.k_scale"] = tensors["model.norm.weight"][:1]

    assert "quantization.cache-scales" in found(write(tmp_path, tensors=add))


def test_an_embedding_of_few_bits(tmp_path: Path) -> None:
    table = GgufTensor(name=b"token_embd.weight", dims=(256, 8), type_id=10, payload=bytes(8 * 84))
    (tmp_path / "x.gguf").write_bytes(gguf_bytes(llama_metadata(), [table, gguf_matrix("output_norm.weight", 1, 256)]))
    assert "quantization.low-head" in found(tmp_path / "x.gguf")
