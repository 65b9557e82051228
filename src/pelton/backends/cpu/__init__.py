"""Plans as native programs: C++ kernels over packed weights. The only package that knows `_native`."""

from pelton.backends.cpu.backend import CpuBackend, CpuExecutable
from pelton.backends.cpu.isa import get_detected_isa, get_isa, set_isa

__all__ = ["CpuBackend", "CpuExecutable", "get_detected_isa", "get_isa", "set_isa"]
