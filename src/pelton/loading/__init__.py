"""From a checkpoint and a backend to a program that runs: weights by plan name, the recorded plan, compiled."""

from pelton.loading.load import LoadedModel, load_model
from pelton.loading.weights import LoadedWeights, load_weights

__all__ = ["LoadedModel", "LoadedWeights", "load_model", "load_weights"]
