import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.fakes import TinyModel

pytestmark = pytest.mark.cpu


def test_one_start_says_what_it_took(tmp_path: Path):
    folder = TinyModel().write(tmp_path / "tiny")
    settings = json.dumps({"num_threads": 1, "max_model_len": 128, "kv_cache_memory_bytes": "1MiB"})
    command = [sys.executable, "-m", "pelton.bench.startup_child", settings, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    found = json.loads(done.stdout)
    assert set(found) == {"import_s", "open_s", "load_s", "first_token_s", "tokenizer_s", "peak_bytes"}
    assert all(value > 0 for value in found.values())
