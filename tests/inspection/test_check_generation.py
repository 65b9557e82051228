from pathlib import Path
from typing import Any

import pytest
from tests.inspection.models import change, found, inspect, write

from pelton.checkpoint.contract import GenerationDefaults
from pelton.checkpoint.hf.generation import find_unfollowed
from pelton.inspection.check_generation import describe_defaults

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"repetition_penalty": 1.0}, set()),
        ({"repetition_penalty": 1.1}, {"generation.argmax"}),
        ({"no_repeat_ngram_size": 3}, {"generation.not-applied"}),
        ({"no_repeat_ngram_size": 0, "num_beams": 1}, set()),
        ({"suppress_tokens": [1, 2]}, {"generation.not-applied"}),
        ({"something_new": "x"}, {"generation.not-applied"}),
    ],
)
def test_fields(tmp_path: Path, fields: dict[str, Any], expected: set[str]) -> None:
    write(tmp_path)
    change(tmp_path / "generation_config.json", fields)
    assert {id_ for id_ in found(tmp_path) if id_.startswith("generation.")} == expected


def test_each_field_is_applied_inert_or_reported() -> None:
    document = {"temperature": 0.5, "pad_token_id": 1, "min_new_tokens": 5, "num_beams": 4, "length_penalty": 1.0}
    assert find_unfollowed(document) == {"min_new_tokens": 5, "num_beams": 4}


def test_defaults_in_words(tmp_path: Path) -> None:
    assert describe_defaults(GenerationDefaults()) == "none given"
    assert inspect(write(tmp_path)).generation == "temperature 0.7, top_p 0.8"
