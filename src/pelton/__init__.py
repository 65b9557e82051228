"""Pelton, an LLM inference engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pelton.api.async_llm import AsyncLLM
    from pelton.api.llm import LLM
    from pelton.core.sampling_params import SamplingParams

__version__ = "0.1.0"
__all__ = ["LLM", "AsyncLLM", "SamplingParams", "__version__"]

_HOMES = {
    "LLM": "pelton.api.llm",
    "AsyncLLM": "pelton.api.async_llm",
    "SamplingParams": "pelton.core.sampling_params",
}


def __getattr__(name: str) -> Any:
    """The public classes, imported when they are first asked for: `import pelton` alone costs nothing."""
    if name not in _HOMES:
        raise AttributeError(f"module 'pelton' has no attribute {name!r}")
    import importlib  # noqa: PLC0415

    return getattr(importlib.import_module(_HOMES[name]), name)
