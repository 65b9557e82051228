"""The program that reads a model's files with the libraries their formats come from, and tells what it saw.

One JSON line for each tensor: name, shape, type, SHA-256 of its bytes, and of a quantized one the numbers of its first
rows. Runs in a process of its own; the libraries are imported by name, as nothing here depends on them.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Final

import numpy as np

ABSENT: Final = 3  # the exit code where the library is not installed
NUM_ROWS: Final = 8


def read_gguf(path: str) -> Iterator[dict[str, Any]]:
    """Tensors of one GGUF file, by the package gguf."""
    gguf = importlib.import_module("gguf")
    for tensor in gguf.GGUFReader(path).tensors:
        kind = tensor.tensor_type
        told = {
            "name": tensor.name,
            "shape": [int(length) for length in reversed(tensor.shape)],
            "type": kind.name,
            "sha256": hash_bytes(tensor.data),
        }
        if tensor.data.dtype == np.uint8:
            rows = tensor.data.reshape(-1, tensor.data.shape[-1])[:NUM_ROWS]
            with suppress(NotImplementedError):  # types that the library knows by name only
                told["numbers"] = hash_numbers(gguf.dequantize(rows, kind))
        yield told


def read_safetensors(path: str) -> Iterator[dict[str, Any]]:
    """Tensors of one safetensors file, by the package safetensors. Types that numpy has not are told without bytes."""
    safetensors = importlib.import_module("safetensors")
    with safetensors.safe_open(path, framework="numpy") as file:
        for name in file.keys():  # noqa: SIM118  the object is no mapping
            part = file.get_slice(name)
            told = {"name": name, "shape": list(part.get_shape()), "type": part.get_dtype()}
            with suppress(TypeError, AttributeError):
                told["sha256"] = hash_bytes(file.get_tensor(name))
            yield told


def hash_bytes(array: np.ndarray[Any, Any]) -> str:
    """SHA-256 of the row-major bytes."""
    return hashlib.sha256(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data).hexdigest()


def hash_numbers(numbers: np.ndarray[Any, Any]) -> str:
    """SHA-256 of float32 numbers, in which the two zeros are one."""
    return hashlib.sha256((np.ascontiguousarray(numbers, np.float32) + np.float32(0)).reshape(-1).data).hexdigest()


READERS: Final[dict[str, Callable[[str], Iterator[dict[str, Any]]]]] = {
    "gguf": read_gguf,
    "safetensors": read_safetensors,
}


def main(kind: str, paths: list[str]) -> int:
    """Write the lines of all files. `kind` is a library's name and a key of READERS."""
    try:
        importlib.import_module(kind)
    except ImportError:
        return ABSENT
    for path in paths:
        for told in READERS[kind](path):
            print(json.dumps(told))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
