"""numpy, float32 or float64: the definition of every op and of sampling. An oracle, not a way to serve."""

from pelton.backends.reference.backend import ReferenceBackend, ReferenceExecutable

__all__ = ["ReferenceBackend", "ReferenceExecutable"]
