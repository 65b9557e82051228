"""A model as a list of operations: the vocabulary (`ops`), the recorder, the passes, and where weights come from."""

from pelton.plan.plan import Node, Pass, Plan, Value, WeightRef
from pelton.plan.recorder import Recorder, Weights
from pelton.plan.weight_map import Row, WeightMap

__all__ = ["Node", "Pass", "Plan", "Recorder", "Row", "Value", "WeightMap", "WeightRef", "Weights"]
