"""Which features exclude which, and why: the one table. Every pair that is not in it works and is tested.

A feature is a word such as 'exact' or a choice such as 'backend=cpu'. The support matrix of the documentation is made
from the same table.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Final

from pelton.config.schema import EngineConfig
from pelton.errors import ConfigError

EXCLUDED_PAIRS: Final[dict[frozenset[str], str]] = {
    frozenset(
        {"backend=cpu", "dtype=float64"}
    ): "the native kernels compute in float32; float64 is there to check them",
}


def get_features(config: EngineConfig) -> frozenset[str]:
    """The features that a configuration switches on."""
    features = {f"backend={config.runner.backend}", f"dtype={config.model.dtype}"}
    if config.model.exact:
        features.add("exact")
    return frozenset(features)


def check_features(features: AbstractSet[str]) -> None:
    """Raise ConfigError if two of `features` exclude each other.

    >>> check_features({"exact", "backend=cpu"})
    """
    for pair, why in EXCLUDED_PAIRS.items():
        if pair <= features:
            one, other = sorted(pair)
            raise ConfigError(f"{one} and {other} cannot be used together: {why}. Turn one of them off.")
