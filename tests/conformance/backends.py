"""The backends that the suite tries, with what they compute in: those that this machine can run."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pelton.backends.executable import Backend
from pelton.backends.reference import ReferenceBackend
from pelton.plan.op_spec import Arithmetic

ORACLE = ReferenceBackend("float64")
ISAS = ("generic", "avx2", "avx512")


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A backend to compare with the oracle. `isa` is for the native one; `exact` as in `Limits`."""

    name: str
    arithmetic: Arithmetic
    isa: str | None = None
    exact: bool = False

    def __str__(self) -> str:
        return self.name

    @contextmanager
    def open(self) -> Iterator[Backend]:
        """The backend, with its instruction set in use until the end."""
        if self.isa is None:
            yield ReferenceBackend("float32")
            return
        from pelton.backends import cpu  # noqa: PLC0415 - only where it is built

        before = cpu.get_isa()
        cpu.set_isa(self.isa)
        try:
            yield cpu.CpuBackend()
        finally:
            cpu.set_isa(before)


def candidates() -> tuple[Candidate, ...]:
    """The reference in float32, and the native backend with every instruction set of this machine, if it is built."""
    found = [Candidate(name="reference-float32", arithmetic="float32")]
    if importlib.util.find_spec("pelton.backends.cpu._native") is not None:
        from pelton.backends import cpu  # noqa: PLC0415 - only where it is built

        for isa in ISAS[: ISAS.index(cpu.get_detected_isa()) + 1]:
            found.append(Candidate(name=f"cpu-{isa}", arithmetic="int8", isa=isa))
            found.append(Candidate(name=f"cpu-{isa}-exact", arithmetic="bfloat16", isa=isa, exact=True))
    return tuple(found)


CANDIDATES = candidates()
