"""Which scaling the keys of a GGUF mean when several of them speak. Whole specs: test_spec.py."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.model_files import gguf_bytes

from pelton.checkpoint.fields import Fields
from pelton.checkpoint.gguf.container import read_container
from pelton.checkpoint.gguf.rope import read_rope
from pelton.checkpoint.model_spec import Rope
from pelton.errors import CheckpointError

pytestmark = pytest.mark.unit


def read(tmp_path: Path, **keys: object) -> Rope:
    path = tmp_path / "model.gguf"
    path.write_bytes(gguf_bytes([], []))
    values = {f"rope.{key.replace('__', '.')}": value for key, value in keys.items()}
    return read_rope(Fields("x", values), read_container(path), head_dim=8, max_position=64, theta=10000.0)


def test_a_factor_of_one_is_no_scaling(tmp_path: Path) -> None:
    for kind in ("none", "linear"):
        assert read(tmp_path, scaling__type=kind, scaling__factor=1.0) == Rope(theta=10000.0, rotary_dim=8)


def test_a_factor_without_a_type_is_linear(tmp_path: Path) -> None:
    scaling = read(tmp_path, scaling__factor=3.0).scaling
    assert scaling is not None
    assert (scaling.kind, scaling.factor) == ("linear", 3.0)


def test_yarn_takes_its_betas_and_the_length_of_the_context(tmp_path: Path) -> None:
    scaling = read(
        tmp_path, scaling__type="yarn", scaling__factor=4.0, scaling__yarn_beta_fast=8.0, scaling__yarn_beta_slow=2.0
    ).scaling
    assert scaling is not None
    assert (scaling.beta_fast, scaling.beta_slow, scaling.original_max_position) == (8.0, 2.0, 64)
    assert scaling.attention_factor is None


@pytest.mark.parametrize("key", ["scaling__yarn_log_multiplier", "scaling__yarn_ext_factor"])
def test_what_only_llama_cpp_computes_is_refused(tmp_path: Path, key: str) -> None:
    with pytest.raises(CheckpointError, match="not supported"):
        read(tmp_path, **{key: 0.5})
