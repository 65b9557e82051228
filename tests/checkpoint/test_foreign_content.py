"""What the first bytes of a file show it to be."""

from __future__ import annotations

import pytest
from tests.model_files import llama_gguf, safetensors_bytes
from tests.pytorch_files import file_of

from pelton.checkpoint.foreign_content import HEAD_BYTES, describe_content

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("head", "what"),
    [
        (file_of(), "a zip archive"),
        (bytes(257) + b"ustar" + bytes(250), "a tar archive"),
        (b"\x80\x02}q\x00.", "a bare pickle"),
        (llama_gguf(), "a GGUF file"),
        (safetensors_bytes({}), "looks like safetensors"),
        (b"version https://git-lfs.github.com/spec/v1", "a pointer of git-lfs"),
        (b"\n <!DOCTYPE html>", "a web page"),
        (b"", ""),
        (b"hello", ""),
    ],
)
def test_files_are_told_by_their_first_bytes(head: bytes, what: str) -> None:
    told = describe_content(head[:HEAD_BYTES])
    assert (what in told) if what else not told
