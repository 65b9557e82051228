"""How large a target will be is known before it is written."""

from __future__ import annotations

import numpy as np
import pytest

from pelton.checkpoint.outgoing import Outgoing
from pelton.conversion.result import Output

pytestmark = pytest.mark.unit


def test_everything_that_is_written_counts() -> None:
    tensor = Outgoing("w", (10, 10), "F32", lambda: np.zeros((10, 40), np.uint8))
    output = Output(tensors=[tensor], records=[], losses=[], files={"a": b"xyz"}, side=[tensor])
    assert output.nbytes == 400 + 400 + 3 + (1 << 20)
