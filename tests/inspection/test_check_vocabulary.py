import json
from pathlib import Path
from typing import Any

import pytest
from tests.fakes import tokenizer_json
from tests.inspection.models import change, found, write

from pelton.inspection.check_vocabulary import load_if_there

pytestmark = pytest.mark.unit


def token_ids(path: Path) -> set[str]:
    return {id_ for id_ in found(path) if id_.startswith("tokenizer.")} - {"tokenizer.ends"}


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("tokenizer_config.json", {"added_tokens_decoder": {"258": {"content": "<|im_end|>"}}}, set()),
        ("tokenizer_config.json", {"added_tokens_decoder": {"257": {"content": "<|im_end|>"}}}, {"tokenizer.added"}),
        ("tokenizer_config.json", {"added_tokens_decoder": {"300": {"content": "<new>"}}}, {"tokenizer.added"}),
        ("tokenizer_config.json", {"added_tokens_decoder": {"x": 3, "9" * 40: {"content": "a"}}}, set()),
        ("added_tokens.json", {"<|im_end|>": 258}, set()),
        ("added_tokens.json", {"<|im_end|>": 256}, {"tokenizer.added"}),
    ],
)
def test_added_tokens(tmp_path: Path, name: str, content: dict[str, Any], expected: set[str]) -> None:
    write(tmp_path)
    change(tmp_path / name, content)
    assert token_ids(tmp_path) == expected


def test_a_vocabulary_beside(tmp_path: Path) -> None:
    write(tmp_path)
    vocabulary = tokenizer_json()["model"]["vocab"]
    path = tmp_path / "vocab.json"
    for changed, expected in (
        ({}, set()),
        ({"<|im_end|>": 258}, set()),
        ({"a": 98, "b": 97}, {"tokenizer.vocabulary"}),
    ):
        path.write_text(json.dumps(vocabulary | changed))
        assert token_ids(tmp_path) == expected
    del vocabulary["a"]
    path.write_text(json.dumps(vocabulary))
    assert token_ids(tmp_path) == {"tokenizer.vocabulary"}


def test_lines_of_a_vocabulary(tmp_path: Path) -> None:
    write(tmp_path)
    tokens = [token for token, _ in sorted(tokenizer_json()["model"]["vocab"].items(), key=lambda item: item[1])]
    (tmp_path / "vocab.txt").write_text("\n".join(tokens), encoding="utf-8")
    assert token_ids(tmp_path) == set()
    (tmp_path / "vocab.txt").write_text("\n".join([tokens[1], tokens[0], *tokens[2:]]), encoding="utf-8")
    assert token_ids(tmp_path) == {"tokenizer.vocabulary"}


def test_an_end_that_is_an_ordinary_token(tmp_path: Path) -> None:
    write(tmp_path)
    change(tmp_path / "generation_config.json", {"eos_token_id": [258, 97]})
    assert token_ids(tmp_path) == {"tokenizer.plain-end"}


def test_files_that_may_be_damaged(tmp_path: Path) -> None:
    assert load_if_there(tmp_path / "none.json") == {}
    (tmp_path / "x.json").write_text("[")
    assert load_if_there(tmp_path / "x.json") == {}
