"""The hash of a file is that of its bytes."""

import hashlib

import pytest

from pelton.checkpoint.file_hash import compute_sha256

pytestmark = pytest.mark.unit


def test_it_is_the_sha256_of_all_bytes(tmp_path):
    path = tmp_path / "file"
    content = bytes(range(256)) * 5000
    path.write_bytes(content)
    assert compute_sha256(path) == hashlib.sha256(content).hexdigest()
