"""The backends that the suite tries, with what they compute in: those that this machine can run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pelton.backends.executable import Backend
from pelton.backends.reference import ReferenceBackend
from pelton.plan.op_spec import Arithmetic

ORACLE = ReferenceBackend("float64")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A backend to compare with the oracle."""

    name: str
    make: Callable[[], Backend]
    arithmetic: Arithmetic

    def __str__(self) -> str:
        return self.name


CANDIDATES = (Candidate("reference-float32", lambda: ReferenceBackend("float32"), "float32"),)
