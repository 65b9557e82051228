"""A configuration that is written of a specification gives it back, here and in transformers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import transformers
from tests.models.architectures import CASES, make_model

from pelton.checkpoint.checkpoint import Checkpoint, open_checkpoint
from pelton.conversion.hf_config import make_config

pytestmark = pytest.mark.cpu


@pytest.mark.parametrize("name", CASES)
def test_a_specification_is_said_again(name: str, tmp_path: Path) -> None:
    make_model(name, tmp_path)
    checkpoint: Checkpoint = open_checkpoint(tmp_path)
    config = make_config(checkpoint.spec, dtype="float32", ids={"bos_token_id": 1, "eos_token_id": 2})
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert open_checkpoint(tmp_path).spec == checkpoint.spec
    assert transformers.AutoConfig.from_pretrained(tmp_path).architectures == config["architectures"]
