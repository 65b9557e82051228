"""Where the numbers of a tensor of ONNX are: in the file itself, or in one beside it.

Invariant: a file beside it has a bare name, lies in the directory (or in the `blobs` of the Hugging Face cache that
the directory belongs to), and is no hard link; a tensor's bytes are inside the file and exactly as many as its shape
and type need. Two tensors may share bytes. A SHA1 that a tensor gives is compared before its bytes are used.
"""

from __future__ import annotations

import hashlib
import math
from pathlib import Path
from typing import Final

from pelton.checkpoint.contract import TensorInfo
from pelton.checkpoint.fields import short
from pelton.checkpoint.mapped_file import MappedFile
from pelton.checkpoint.onnx.model_file import Initializer
from pelton.checkpoint.placed_tensor import PlacedTensor, Record
from pelton.checkpoint.scheme import SCHEMES
from pelton.errors import CheckpointError

# The types of a weight by their numbers in TensorProto.DataType.
_SCHEMES: Final = {
    1: "F32", 2: "U8", 3: "I8", 4: "U16", 5: "I16", 6: "I32", 7: "I64", 9: "BOOL", 10: "F16", 11: "F64", 12: "U32",
    13: "U64", 14: "C64", 16: "BF16", 17: "F8_E4M3", 18: "F8_E4M3FNUZ", 19: "F8_E5M2", 20: "F8_E5M2FNUZ", 24: "F8_E8M0",
}  # fmt: skip
_KEYS: Final = {"location", "offset", "length", "checksum"}
_SUFFIXES: Final = (".onnx_data", ".data", ".bin", ".weight", ".weights", ".onnx.data")
_MAX_FILES: Final = 10_000


class Places:
    """Finds the bytes of tensors of one model.onnx, and keeps the files that they are in."""

    def __init__(self, file: MappedFile) -> None:
        self._file = file
        self._beside: dict[str, MappedFile] = {}

    def place(self, tensor: Initializer) -> PlacedTensor:
        """The tensor as it lies. Raises CheckpointError."""
        where = f"{self._file.path}: tensor {short(tensor.name)}"
        scheme = _SCHEMES.get(tensor.data_type)
        if scheme is None:
            raise CheckpointError(f"{where} is of type {tensor.data_type}; known: {', '.join(_SCHEMES.values())}.")
        nbytes = math.prod(tensor.dims) * SCHEMES[scheme].block_bytes
        if scheme == "F32" and tensor.raw is None and tensor.external is None:
            raise CheckpointError(f"{where} has its numbers in pieces, or none. Save the model with raw data.")
        if tensor.external is None:
            begin, end = tensor.raw or (0, 0)
            if end - begin != nbytes:
                raise CheckpointError(f"{where} has {end - begin} bytes; {scheme} of its shape takes {nbytes}.")
            return PlacedTensor(TensorInfo(tensor.name, tensor.dims, scheme, nbytes), self._file, begin)
        return self._place_beside(tensor, tensor.external, scheme, nbytes, where)

    def _place_beside(
        self, tensor: Initializer, keys: dict[str, str], scheme: str, nbytes: int, where: str
    ) -> PlacedTensor:
        unknown = sorted(keys.keys() - _KEYS)
        if unknown:
            raise CheckpointError(f"{where} has the key {short(unknown[0])}; known: {', '.join(sorted(_KEYS))}.")
        file = self._open(keys.get("location", ""), where)
        offset = _number(keys.get("offset", "0"), where)
        length = _number(keys["length"], where) if "length" in keys else file.size - offset
        if offset > file.size or length > file.size - offset or length != nbytes:
            raise CheckpointError(
                f"{where} is {length} bytes from byte {offset} of {file.path.name}, which has {file.size}; "
                f"{scheme} of its shape takes {nbytes}. The files do not belong together, or one is truncated."
            )
        record = None
        if "checksum" in keys:
            expected = keys["checksum"].lower()
            record = Record(offset, nbytes, lambda: _check_sum(file, offset, nbytes, expected, where))
        return PlacedTensor(TensorInfo(tensor.name, tensor.dims, scheme, nbytes), file, offset, None, record)

    def _open(self, name: str, where: str) -> MappedFile:
        if name not in self._beside:
            is_bare = name.isprintable() and not set(name) & set('/\\:"') and not name.startswith(".")
            if not is_bare or not name.endswith(_SUFFIXES) or len(self._beside) >= _MAX_FILES:
                raise CheckpointError(
                    f"{where} is in {short(name)}; expected the bare name of a file beside it, ending in "
                    f"{', '.join(_SUFFIXES)}."
                )
            path = self._file.path.parent / name
            _check_place(path)
            self._beside[name] = MappedFile(path)
        return self._beside[name]


def _check_place(path: Path) -> None:
    """Refuse links that lead out of the directory and of its cache, and hard links to files of anywhere."""
    directory = path.parent
    target = path.resolve()
    roots = [directory.resolve()]
    for each in directory.absolute().parents:
        if each.name == "snapshots":
            roots.append((each.parent / "blobs").resolve())
    if not any(target.is_relative_to(root) for root in roots):
        raise CheckpointError(f"{path}: is a link that leads out of the directory. Copy the file instead.")
    if target.exists() and target.stat().st_nlink > 1:
        raise CheckpointError(f"{path}: is a hard link, and may be any file. Copy the file instead.")


def _number(text: str, where: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 19):
        raise CheckpointError(f"{where} has the offset or length {short(text)}; expected a number of bytes.")
    return int(text)


def _check_sum(file: MappedFile, offset: int, nbytes: int, expected: str, where: str) -> None:
    actual = hashlib.sha1(file.rows(offset, 1, nbytes).data, usedforsecurity=False).hexdigest()
    if actual != expected:
        raise CheckpointError(f"{where} has the SHA1 {actual}, expected {short(expected)}. Fetch it again.")
