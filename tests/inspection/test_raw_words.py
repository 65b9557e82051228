from pathlib import Path
from typing import Any

import pytest
from tests.inspection.models import inspect, write

from pelton.inspection.raw_words import describe_quantization, describe_refused

pytestmark = pytest.mark.unit
BERT = {
    "architectures": ["BertModel"],
    "hidden_size": 384,
    "num_hidden_layers": 6,
    "num_attention_heads": 12,
    "intermediate_size": 1536,
    "vocab_size": 30522,
    "max_position_embeddings": 512,
}


def test_sizes_in_the_words_of_the_file() -> None:
    assert describe_refused(BERT, {}) == {
        "architecture": "BertModel (as the file says)",
        "sizes": "6 layers, 384 channels, 12 heads, 1,536 channels of the MLP",
        "context": "512 positions",
        "vocabulary": "30,522 rows",
    }


def test_keys_of_a_gguf() -> None:
    metadata = {"general.architecture": "rwkv7", "rwkv7.block_count": 24, "rwkv7.context_length": 4096}
    facts = describe_refused({}, metadata)
    assert facts == {"architecture": "rwkv7 (as the file says)", "sizes": "24 layers", "context": "4,096 positions"}


@pytest.mark.parametrize(
    "config",
    [{}, {"architectures": []}, {"hidden_size": "x", "vocab_size": [1]}, {"text_config": 3, "quantization_config": {}}],
)
def test_nothing_is_believed(config: dict[str, Any]) -> None:
    assert "sizes" not in describe_refused(config, {})


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"quant_method": "awq", "bits": 4, "group_size": -1}, "awq, 4 bits"),
        ({"quant_method": "compressed-tensors", "format": "pack-quantized"}, "compressed-tensors, pack-quantized"),
        ({"bits": True}, "no method named"),
    ],
)
def test_quantizations(settings: dict[str, Any], expected: str) -> None:
    assert describe_quantization({"quantization_config": settings}) == {"quantization": expected}
    assert describe_quantization({"text_config": {"quantization_config": settings}}) == {"quantization": expected}
    assert describe_quantization({"quantization_config": 3}) == {}


def test_a_model_that_is_refused_is_described_all_the_same(tmp_path: Path) -> None:
    report = inspect(write(tmp_path, config={"architectures": ["BertModel"]}))
    assert "'BertModel' is not supported" in report.refusals[0]
    assert report.model["architecture"] == "BertModel (as the file says)"
    assert report.text.tokenizer["size"] == "259 tokens"
    assert report.num_parameters == 156_608
    assert report.num_files == 5
