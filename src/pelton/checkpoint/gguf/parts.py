"""A model split over several GGUF files, `name-00001-of-0000N.gguf`, seen as one container.

The first part holds the metadata, the others say only which part they are. Invariant: all parts are there, each is the
one its name says, and together they hold as many tensors as each claims, none of them twice; only then is anything of
them used. Opening any part opens all. No other file is opened than those whose names follow from the given one.
Source: the keys `split.no`, `split.count` and `split.tensors.count` of llama.cpp.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from pelton.checkpoint.fields import Fields
from pelton.checkpoint.gguf.container import Container, GgufTensor, Value, read_container
from pelton.errors import CheckpointError

_PART_NAME = re.compile(r"(?P<stem>.+)-(?P<number>[0-9]{5})-of-(?P<count>[0-9]{5})\.gguf")
_MAX_PARTS = 1000  # of five digits; the largest models have some dozens
_OWN_KEYS = "split."


def read_model(path: Path) -> Container:
    """The file at `path`, or the whole model that it is a part of. Raises CheckpointError; reads no tensor data."""
    given = read_container(path)
    name = _PART_NAME.fullmatch(path.name)
    count = _count(given)
    if name is None or count <= 1:
        _check_single(given, name, count)
        return given
    number, named_count = int(name["number"]), int(name["count"])
    if named_count != count:
        raise CheckpointError(
            f"{path}: says that it is one of {count} parts, and its name says {named_count}. Give it its name back."
        )
    paths = [path.with_name(f"{name['stem']}-{index:05}-of-{count:05}.gguf") for index in range(1, count + 1)]
    _check_present(path, paths)
    parts = [given if index == number else read_container(each) for index, each in enumerate(paths, start=1)]
    return _joined(parts)


def find_first_part(files: Iterable[Path]) -> Path | None:
    """The first part of the one split model that all `files` belong to, or None if they are anything else."""
    names = [_PART_NAME.fullmatch(file.name) for file in files]
    sets = {(name["stem"], name["count"]) if name else None for name in names}
    if len(sets) != 1 or None in sets:
        return None
    return min(files)


def _count(part: Container) -> int:
    fields = Fields(str(part.file.path), part.metadata)
    count = fields.integer("split.count", 1, minimum=0)
    if count > _MAX_PARTS:
        raise fields.error(f"split.count is {count}; a model has at most {_MAX_PARTS} parts.")
    return count


def _check_single(given: Container, name: re.Match[str] | None, count: int) -> None:
    path = given.file.path
    if count > 1:
        raise CheckpointError(
            f"{path}: is one of {count} parts of a split model. Give it the name it had, which ends in "
            f"-00001-of-{count:05}.gguf or the like, so that the others are found beside it."
        )
    if name is not None and int(name["count"]) > 1:
        raise CheckpointError(
            f"{path}: its name says that it is one of {int(name['count'])} parts, and its metadata says nothing of the "
            "kind (split.count). If it is a whole model, rename it."
        )


def _check_present(given: Path, paths: Sequence[Path]) -> None:
    try:
        missing = [each.name for each in paths if not each.exists()]
    except OSError as error:
        raise CheckpointError(f"{given}: the parts beside it cannot be looked for: {error}.") from None
    if missing:
        rest = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        raise CheckpointError(
            f"{given}: is one of {len(paths)} parts, of which {', '.join(missing[:3])}{rest} "
            f"{'is' if len(missing) == 1 else 'are'} missing. Fetch all parts into one folder."
        )


def _joined(parts: Sequence[Container]) -> Container:
    """One container of all, after every check. What is joined says no more that it was split."""
    claimed: set[int] = set()
    tensors: dict[str, GgufTensor] = {}
    for index, part in enumerate(parts):
        fields = Fields(str(part.file.path), part.metadata)
        own = (fields.integer("split.no", minimum=0), fields.integer("split.count"))
        if own != (index, len(parts)):
            raise fields.error(
                f"says that it is part {own[0] + 1} of {own[1]}, and its name says {index + 1} of {len(parts)}. "
                "Files of several models are mixed up, or were renamed; fetch them again."
            )
        claimed.add(fields.integer("split.tensors.count", minimum=0))
        for name in tensors.keys() & part.tensors.keys():
            raise fields.error(f"holds the tensor {name!r}, which another part holds too.")
        tensors |= part.tensors
        if index:
            _check_metadata(fields, parts[0].metadata, part.metadata)
    if claimed != {len(tensors)}:
        said = " or ".join(str(number) for number in sorted(claimed))
        raise CheckpointError(
            f"{parts[0].file.path}: the {len(parts)} parts hold {len(tensors)} tensors and split.tensors.count says "
            f"{said}. Parts of several versions are mixed up; fetch them again."
        )
    first = parts[0]
    metadata = {key: value for key, value in first.metadata.items() if not key.startswith(_OWN_KEYS)}
    return Container(first.file, first.version, metadata, tensors, tuple(part.file for part in parts))


def _check_metadata(fields: Fields, first: Mapping[str, Value], later: Mapping[str, Value]) -> None:
    """What a later part says beside its place, the first must say too: nobody would hear it."""
    for key, value in later.items():
        if key.startswith(_OWN_KEYS) or key == "general.alignment":
            continue
        if key not in first or not _is_equal(first[key], value):
            raise fields.error(
                f"has the metadata key {key!r}, which the first part {'contradicts' if key in first else 'lacks'}; the "
                "metadata of a split model belongs in its first part."
            )


def _is_equal(one: Value, other: Value) -> bool:
    if isinstance(one, str | bool | int | float) or isinstance(other, str | bool | int | float):
        return type(one) is type(other) and one == other
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return isinstance(one, np.ndarray) and isinstance(other, np.ndarray) and np.array_equal(one, other)
    return list(one) == list(other)
