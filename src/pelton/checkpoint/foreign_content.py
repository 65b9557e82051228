"""What a file is that does not begin as its name says: a hint for the message that refuses it, no way to read it."""

from __future__ import annotations

from typing import Final

HEAD_BYTES: Final = 512
_TAR_AT, _TAR = 257, b"ustar"
_OLD = "Where you trust its author, load it with PyTorch and save the state dict again, best as safetensors."


def describe_content(head: bytes) -> str:
    """What a file with these first bytes looks like, as a sentence without a subject; empty if that is not known.

    >>> describe_content(b"GGUF")
    'is a GGUF file. Give it the suffix .gguf.'
    """
    if head.startswith(b"PK\x03\x04"):
        return "is a zip archive, as PyTorch writes them. Give it the suffix .bin or .pt."
    if head[_TAR_AT : _TAR_AT + len(_TAR)] == _TAR:
        return f"is a tar archive, as PyTorch wrote before 0.1.10; those are not read. {_OLD}"
    if head.startswith(b"\x80") and head[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05"):
        return f"is a bare pickle, as PyTorch wrote before 1.6; those are not read. {_OLD}"
    if head.startswith(b"GGUF"):
        return "is a GGUF file. Give it the suffix .gguf."
    if head[8:9] == b"{" and head[4:8] == bytes(4):
        return "looks like safetensors. Give it the suffix .safetensors."
    if head.startswith(b"version https://git-lfs"):
        return "is only a pointer of git-lfs to the file. Fetch the file itself."
    if head.lstrip()[:1] == b"<":
        return "is a web page. What was downloaded is not the file but a page about it."
    return ""
