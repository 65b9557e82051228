"""The angles that an export has built in, compared with those of the configuration beside it.

onnxruntime-genai computes cosine and sine for all positions when it exports, so the scaling of positions is in the
weights' file, and a configuration of another length or base goes unnoticed: the graph is not what is run here.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from pelton.checkpoint.dequantize import dequantize_rows
from pelton.checkpoint.mapped_file import MappedFile
from pelton.checkpoint.model_spec import ModelSpec
from pelton.checkpoint.onnx.model_file import read_model_file
from pelton.checkpoint.onnx.place import Places
from pelton.checkpoint.rope import rotary_frequencies
from pelton.errors import CheckpointError

TABLE: Final = re.compile(r"(.*[./_])?(cos|sin)_cache(_\w+)?")
_MAX_ROWS: Final = 4096
_TOLERANCE: Final = 4e-3  # of float16, and of float32 angles at the last of these positions


def check_tables(path: Path, spec: ModelSpec) -> None:
    """Raise CheckpointError if a table of the file `path` is that of no layer of the model."""
    file = MappedFile(path)
    places = Places(file)
    tables = [each for name, each in read_model_file(file).initializers.items() if TABLE.fullmatch(name)]
    ropes = {layer.rope for layer in spec.layers if layer.rope is not None}
    angles = [rotary_frequencies(rope, length) for rope in ropes for length in (1, spec.max_position)]
    for table in tables:
        placed = places.place(table)
        if len(table.dims) != 2 or placed.info.scheme not in ("F32", "F16", "BF16"):
            raise CheckpointError(f"{path}: {table.name!r} has shape {list(table.dims)}, expected [positions, pairs].")
        stored = placed.rows()
        assert isinstance(stored, np.ndarray), "tables have no strides, and nobody gives them a checksum"
        found = dequantize_rows(placed.info.scheme, stored[:_MAX_ROWS])
        kind = np.cos if "cos_cache" in table.name else np.sin
        positions: npt.NDArray[np.float64] = np.arange(len(found), dtype=np.float64)[:, None]
        if not any(
            len(frequencies) == found.shape[1]
            and np.allclose(kind(positions * np.array(frequencies)) * factor, found, rtol=0, atol=_TOLERANCE)
            for frequencies, factor in angles
        ):
            raise CheckpointError(
                f"{path}: the angles in {table.name!r} are those of no layer of config.json: base, scaling or length "
                "of one of them are wrong. Put the config.json beside it that the model was exported with."
            )
