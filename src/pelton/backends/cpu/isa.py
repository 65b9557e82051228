"""Which instruction set the native kernels use. Detected once; tests and PELTON_ISA may ask for a lower one.

Programs look when they are compiled: a change does not reach those that exist.
"""

from __future__ import annotations

from pelton.backends.cpu import _native
from pelton.errors import BackendError


def get_isa() -> str:
    """The instruction set in use: "generic", "avx2" or "avx512"."""
    return _native.isa()


def get_detected_isa() -> str:
    """The best instruction set of this machine."""
    return _native.detected_isa()


def set_isa(name: str) -> None:
    """Use the kernels of `name` from now on. Raises BackendError if this machine lacks it or there is none such."""
    try:
        _native.set_isa(name)
    except ValueError as error:
        raise BackendError(f"PELTON_ISA: {error}. Leave it unset to use the best one.") from None
