"""What the engine loop needs of the execution plane."""

from __future__ import annotations

from abc import ABC, abstractmethod

from pelton.core.step import ModelRunnerOutput, SchedulerOutput


class Executor(ABC):
    """Runs steps. Made by `api.assemble`; the engine knows nothing else of models and devices."""

    @abstractmethod
    def execute(self, step: SchedulerOutput) -> ModelRunnerOutput:
        """Compute one step and sample. Blocks until it is done."""

    @abstractmethod
    def close(self) -> None:
        """Give back memory and threads. The executor is of no use after that."""
