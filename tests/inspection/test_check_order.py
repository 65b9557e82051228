import json
from pathlib import Path

import pytest
from tests.fakes import tokenizer_json
from tests.inspection.models import found, write
from tests.model_files import gguf_bytes, gguf_matrix, i32s, llama_metadata, strings, text, u32

from pelton.inspection.check_order import find_moved

pytestmark = pytest.mark.unit
PAIRS = [(left, right) for left in "abcdefghijklmnop" for right in "abcdefghijklmnop"]


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        (range(300), []),
        ([0, 0, 1, 1, 2], []),
        ([0, 1, 9, 3, 4, 5], [2]),
        ([0, 1, 2, 9, 4, 5, 6, 7, 8, 3, 10], [3, 9]),
        ([5, 1, 2, 3], [0]),
    ],
)
def test_places(ids: list[int], expected: list[int]) -> None:
    assert find_moved([(str(at), id_) for at, id_ in enumerate(ids)]) == expected


def write_merges(directory: Path, order: list[int]) -> None:
    """A tokenizer of 256 merges, whose tokens have their ids in `order`."""
    document = tokenizer_json()
    model = document["model"]
    model["merges"] = [list(pair) for pair in PAIRS]
    model["vocab"] |= {"".join(pair): 256 + at for pair, at in zip(PAIRS, order, strict=True)}
    for token in document["added_tokens"]:
        token["id"] += len(PAIRS)
    (directory / "tokenizer.json").write_text(json.dumps(document))


@pytest.mark.parametrize("kind", ["sound", "exchanged", "of several"])
def test_two_entries_that_were_exchanged(tmp_path: Path, kind: str) -> None:
    write(tmp_path)
    order = list(range(len(PAIRS)))
    if kind == "exchanged":
        order[30], order[200] = order[200], order[30]
    if kind == "of several":
        order = order[::2] + order[1::2][::-1]
    write_merges(tmp_path, order)
    assert ("tokenizer.order" in found(tmp_path)) == (kind == "exchanged")


@pytest.mark.parametrize("is_exchanged", [False, True])
def test_of_a_gguf(tmp_path: Path, is_exchanged: bool) -> None:
    tokens = [*"abcdefghijklmnop", *("".join(pair) for pair in PAIRS)]
    if is_exchanged:
        tokens[40], tokens[220] = tokens[220], tokens[40]
    path = tmp_path / "x.gguf"
    keys = {
        "tokenizer__ggml__pre": text("qwen2"),
        "tokenizer__ggml__tokens": strings(tokens),
        "tokenizer__ggml__token_type": i32s([1] * len(tokens)),
        "tokenizer__ggml__merges": strings([" ".join(pair) for pair in PAIRS]),
        "tokenizer__ggml__eos_token_id": u32(0),
    }
    path.write_bytes(gguf_bytes(llama_metadata(**keys), [gguf_matrix("token_embd.weight", len(tokens), 16)]))
    assert ("tokenizer.order" in found(path)) == is_exchanged
