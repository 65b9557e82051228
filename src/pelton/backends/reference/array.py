"""The arrays of the reference backend: float32 or float64, one dtype throughout a program."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.floating[Any]]
Int32 = npt.NDArray[np.int32]
