"""What is computed with in another form is said once for each scheme."""

from __future__ import annotations

import logging

import pytest

from pelton.checkpoint.contract import TensorInfo
from pelton.loading.expand import bits_per_element, log_expanded

pytestmark = pytest.mark.unit


def test_one_line_for_each_scheme(caplog: pytest.LogCaptureFixture) -> None:
    infos = [TensorInfo("a", (1, 256), "IQ2_XS", 74), TensorInfo("b", (2, 256), "IQ2_XS", 148)]
    infos += [TensorInfo("c", (1, 256), "TQ2_0", 66), TensorInfo("d", (1, 256), "Q4_K", 144)]
    with caplog.at_level(logging.INFO, "pelton.loading"):
        log_expanded(infos)
    first, second = (record.fields for record in caplog.records)
    assert first == {"scheme": "IQ2_XS", "becomes": "F32", "tensors": 2, "stored_bytes": 222, "times_larger": 13.84}
    assert (second["scheme"], second["becomes"], second["times_larger"]) == ("TQ2_0", "Q4_0", 2.18)


def test_bits_per_element() -> None:
    assert (bits_per_element("F32"), bits_per_element("INT8_G32")) == (32.0, 9.25)
