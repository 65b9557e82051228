"""Split models: any part opens all, and whatever does not fit together is refused by the name of the file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.model_files import GgufTensor, gguf_bytes, gguf_matrix, llama_metadata, text, u32

from pelton.checkpoint.checkpoint import open_checkpoint
from pelton.checkpoint.dequantize import dequantize
from pelton.checkpoint.gguf.parts import find_first_part, read_model
from pelton.errors import CheckpointError

pytestmark = pytest.mark.unit

NAMES = [f"m-{number:05}-of-00003.gguf" for number in (1, 2, 3)]
TENSORS = [gguf_matrix("token_embd.weight", 8, 16), gguf_matrix("blk.0.attn_q.weight", 4, 16, 1)]


def split_keys(number: int, *, count: int = 3, total: int = 2) -> list[tuple[str | bytes, bytes]]:
    return [("split.no", u32(number)), ("split.count", u32(count)), ("split.tensors.count", u32(total))]


def part(
    number: int, tensors: list[GgufTensor], more: list[tuple[str | bytes, bytes]] | None = None, **keys: int
) -> bytes:
    own = llama_metadata() if number == 0 else []
    return gguf_bytes([*own, *split_keys(number, **keys), *(more or [])], tensors)


def write(folder: Path, **changes: bytes | None) -> list[Path]:
    """Three sound parts, the first without tensors, but for `changes`: first, second, third."""
    parts = {"first": part(0, []), "second": part(1, TENSORS[:1]), "third": part(2, TENSORS[1:])} | changes
    paths = [folder / name for name in NAMES]
    for path, raw in zip(paths, parts.values(), strict=True):
        if raw is not None:
            path.write_bytes(raw)
    return paths


def test_any_part_and_the_folder_open_all(tmp_path: Path) -> None:
    paths = write(tmp_path)
    for path in (*paths, tmp_path):
        with open_checkpoint(path) as checkpoint:
            assert checkpoint.path == paths[0]
            assert [file.path for file in checkpoint.files] == paths
            assert checkpoint.spec.vocab_size == 8
            assert not any(key.startswith("split.") for key in read_model(paths[2]).metadata)
            for tensor in TENSORS:
                assert dequantize(checkpoint.read(tensor.name.decode())).tobytes() == tensor.payload


def test_a_model_that_was_split_into_one_part(tmp_path: Path) -> None:
    path = tmp_path / "m-00001-of-00001.gguf"
    path.write_bytes(gguf_bytes([*llama_metadata(), *split_keys(0, count=1)], TENSORS))
    assert list(read_model(path).tensors) == ["token_embd.weight", "blk.0.attn_q.weight"]


CASES: dict[str, tuple[dict[str, bytes | None], str]] = {
    "one is missing": ({"third": None}, "m-00003-of-00003.gguf is missing. Fetch all"),
    "two are missing": ({"second": None, "third": None}, "m-00002-of-00003.gguf, m-00003-of-00003.gguf are missing"),
    "other count in the name": ({"first": part(0, [], count=4)}, "one of 4 parts, and its name says 3"),
    "other count in a later part": ({"second": part(1, TENSORS[:1], count=4)}, "part 2 of 4, and its name says 2 of 3"),
    "in each other's place": (
        {"second": part(2, TENSORS[1:]), "third": part(1, TENSORS[:1])},
        "says that it is part 3 of 3, and its name says 2 of 3",
    ),
    "no number": (
        {"second": gguf_bytes([("split.count", u32(3))], TENSORS[:1])},
        "split.no is missing",
    ),
    "a tensor in two": ({"third": part(2, TENSORS)}, r"holds the tensor 'token_embd\.weight', which another part"),
    "too few tensors": (
        {
            f"{name}": part(n, TENSORS[n - 1 : n] if n else [], total=3)
            for n, name in enumerate(("first", "second", "third"))
        },
        "hold 2 tensors and split.tensors.count says 3",
    ),
    "counts that differ": (
        {"third": part(2, TENSORS[1:], total=5)},
        "hold 2 tensors and split.tensors.count says 2 or 5",
    ),
    "metadata in a later part": (
        {"second": part(1, TENSORS[:1], [("llama.block_count", u32(3))])},
        "'llama.block_count', which the first part contradicts",
    ),
    "metadata in a later part alone": (
        {"third": part(2, TENSORS[1:], [("llama.rope.scaling.factor", u32(3))])},
        r"'llama\.rope\.scaling\.factor', which the first part lacks",
    ),
    "a part cut short": ({"third": part(2, TENSORS[1:])[:-1]}, "m-00003-of-00003.gguf: .*truncated"),
    "far too many": ({"first": part(0, [], count=65535)}, "split.count is 65535; a model has at most 1000"),
}


@pytest.mark.parametrize("name", CASES)
def test_what_does_not_fit_together_is_refused(tmp_path: Path, name: str) -> None:
    changes, message = CASES[name]
    write(tmp_path, **changes)
    with pytest.raises(CheckpointError, match=message):
        read_model(tmp_path / NAMES[0])


def test_copies_of_metadata_in_later_parts_are_harmless(tmp_path: Path) -> None:
    write(tmp_path, second=part(1, TENSORS[:1], [("general.architecture", text("llama"))]))
    assert len(read_model(tmp_path / NAMES[0]).tensors) == 2


def test_names_and_metadata_that_contradict_each_other(tmp_path: Path) -> None:
    (tmp_path / "x.gguf").write_bytes(part(0, TENSORS))
    with pytest.raises(CheckpointError, match="one of 3 parts of a split model"):
        read_model(tmp_path / "x.gguf")
    (tmp_path / NAMES[0]).write_bytes(gguf_bytes(llama_metadata(), TENSORS))
    with pytest.raises(CheckpointError, match="its name says that it is one of 3 parts"):
        read_model(tmp_path / NAMES[0])


def test_a_part_may_be_a_link_but_no_pipe(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    paths = write(tmp_path / "store")
    for path in paths:
        (tmp_path / path.name).symlink_to(path)
    assert len(read_model(tmp_path / NAMES[1]).tensors) == 2
    paths[2].unlink()
    os.mkfifo(paths[2])
    with pytest.raises(CheckpointError, match="not a regular file"):
        read_model(paths[0])


def test_only_parts_of_one_model_are_taken_for_one(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in NAMES]
    assert find_first_part(paths) == paths[0]
    assert find_first_part([*paths, tmp_path / "mmproj.gguf"]) is None
    assert find_first_part([*paths, tmp_path / "n-00001-of-00003.gguf"]) is None
