from pathlib import Path

import numpy as np
import pytest
from tests.inspection.models import change, found, inspect, write

pytestmark = pytest.mark.unit


def head(like: int | None):  # type: ignore[no-untyped-def]
    """Give the stop id's row of the head the direction of another special token's, or nothing at all."""

    def damage(tensors: dict) -> None:  # type: ignore[type-arg]
        rows = tensors["lm_head.weight"]
        rows[258] = 0.0 if like is None else rows[like] * 1.01 + np.float32(1e-4)

    return damage


@pytest.mark.parametrize(("like", "is_found"), [(256, True), (None, True), (7, False)])
def test_a_stop_id_with_the_row_of_an_unused_token(tmp_path: Path, like: int | None, is_found: bool) -> None:
    write(tmp_path, tensors=head(like))
    change(tmp_path / "generation_config.json", {"eos_token_id": 258})
    assert ("weights.unlearnt" in found(tmp_path)) == is_found


def test_it_is_named(tmp_path: Path) -> None:
    write(tmp_path, tensors=head(256))
    change(tmp_path / "generation_config.json", {"eos_token_id": 258})
    (finding,) = [finding for finding in inspect(tmp_path).findings if finding.id == "weights.unlearnt"]
    assert finding.sentence.startswith("258 '<|im_end|>': its row of the head is")


def test_a_tied_head_is_the_embedding(tmp_path: Path) -> None:
    def damage(tensors: dict) -> None:  # type: ignore[type-arg]
        tensors["model.embed_tokens.weight"][258] = tensors["model.embed_tokens.weight"][257]

    write(tmp_path, "Qwen2ForCausalLM", tensors=damage)
    change(tmp_path / "generation_config.json", {"eos_token_id": 258})
    assert "weights.unlearnt" in found(tmp_path)
