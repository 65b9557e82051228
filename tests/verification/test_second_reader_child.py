"""The child's account of a file, and its exit code where the library is missing."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from pelton.verification.second_reader_child import ABSENT, hash_numbers, main

pytestmark = pytest.mark.unit


def test_types_that_numpy_has_not_may_be_told_without_bytes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "m.safetensors"
    save_file({"a": torch.ones(2, 3, dtype=torch.bfloat16), "b": torch.arange(4, dtype=torch.float32)}, path)
    assert main("safetensors", [str(path)]) == 0
    told = {line["name"]: line for line in map(json.loads, capsys.readouterr().out.splitlines())}
    ones = hashlib.sha256(b"\x80\x3f" * 6).hexdigest()
    assert told["a"].pop("sha256", ones) == ones  # told only where somebody has taught numpy the type
    assert told["a"] == {"name": "a", "shape": [2, 3], "type": "BF16"}
    assert told["b"]["sha256"] == hashlib.sha256(np.arange(4, dtype=np.float32).tobytes()).hexdigest()


def test_a_missing_library_has_its_own_exit_code() -> None:
    assert main("no_such_library", []) == ABSENT


def test_the_two_zeros_are_one_number() -> None:
    assert hash_numbers(np.float32([0.0, 1.0])) == hash_numbers(np.float32([-0.0, 1.0]))
    assert hash_numbers(np.float32([0.0, 1.0])) != hash_numbers(np.float32([0.0, 2.0]))
