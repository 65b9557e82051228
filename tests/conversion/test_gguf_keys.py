"""Keys that are written of a specification are those that the reference package knows, with their types."""

from __future__ import annotations

from pathlib import Path

import gguf
import pytest
from tests.conversion.llama import LLAMA
from tests.models.architectures import CASES, make_model

from pelton.checkpoint.checkpoint import open_checkpoint
from pelton.conversion.gguf_keys import find_rope, make_factors, make_keys

pytestmark = pytest.mark.cpu

KNOWN = {
    value
    for group in vars(gguf.Keys).values()
    if isinstance(group, type)
    for value in vars(group).values()
    if isinstance(value, str)
}


@pytest.mark.parametrize("name", CASES)
def test_every_key_is_one_of_the_format(name: str, tmp_path: Path) -> None:
    make_model(name, tmp_path)
    with open_checkpoint(tmp_path) as checkpoint:
        keys = make_keys(checkpoint.spec)
        arch = keys["general.architecture"]
        assert arch in gguf.MODEL_ARCH_NAMES.values()
        for key in keys:
            assert key.replace(f"{arch}.", "{arch}.", 1) in KNOWN, key
        for factor in make_factors(checkpoint.spec):
            rope = find_rope(checkpoint.spec)
            assert rope is not None
            assert factor.shape == (rope.rotary_dim // 2,)


def test_every_number_is_written() -> None:
    keys = make_keys(LLAMA)
    assert keys["llama.rope.freq_base"] == 777.0
    assert keys["llama.attention.head_count_kv"] == 2
    assert keys["llama.attention.layer_norm_rms_epsilon"] == 3e-3
    assert make_factors(LLAMA) == []
