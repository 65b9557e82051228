"""When a step counts as one that will never end."""

import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.engine.fakes import make_engine

from pelton.core.messages import Pulse
from pelton.engine.loop import EngineLoop
from pelton.engine.process_state import read_state
from pelton.engine.pulse import ASLEEP_S, LEAST_CPU_S, PULSE_S, Watch, find_whether_asleep
from pelton.engine.step_cost import ENOUGH_STEPS

pytestmark = pytest.mark.unit


@dataclass
class Machine:
    """Clocks and threads that do as they are told."""

    engine: EngineLoop = field(default_factory=make_engine)
    now_s: float = 100.0
    cpu_s: float = 5.0
    is_asleep: bool = False

    def __post_init__(self) -> None:
        self.watch = Watch(
            self.engine,
            clock=lambda: self.now_s,
            cpu_clock=lambda: self.cpu_s,
            is_asleep=lambda: self.is_asleep,
        )

    def look(self, seconds: float = PULSE_S, cpu: float = 0.0) -> Pulse:
        self.now_s += seconds
        self.cpu_s += cpu
        return self.watch.look()


def test_between_steps_there_is_nothing_to_say() -> None:
    machine = Machine(is_asleep=True)
    assert [machine.look() for _ in range(20)] == [Pulse(0.0)] * 20


def test_a_step_that_sleeps_too_long_is_stuck() -> None:
    machine = Machine(is_asleep=True)
    machine.engine.step_started_s = machine.now_s
    pulses = [machine.look() for _ in range(7)]
    assert [bool(pulse.problem) for pulse in pulses] == [False] * 5 + [True] * 2
    assert pulses[-1].step_age_s == pytest.approx(7 * PULSE_S)
    assert ASLEEP_S < 4 * PULSE_S < 6 * PULSE_S < 2.0


def test_steps_that_follow_one_another_are_not() -> None:
    machine = Machine(is_asleep=True)
    for _ in range(20):
        machine.engine.step_started_s = machine.now_s
        assert not machine.look().problem


def test_a_step_that_gets_no_cpu_is_not_stuck() -> None:
    machine = Machine()
    machine.engine.step_started_s = machine.now_s
    assert not any(machine.look(60.0, cpu=0.1).problem for _ in range(20))


def test_a_step_that_computes_far_too_long_is_stuck_once_there_is_something_to_compare_with() -> None:
    machine = Machine()
    machine.engine.step_started_s = machine.now_s
    assert not any(machine.look(cpu=60.0).problem for _ in range(5))
    for _ in range(ENOUGH_STEPS):
        machine.engine.costs.add(1, 0.1)
    assert "1.0 s were too long for a step like this" in machine.look().problem
    machine.engine.step_started_s = machine.now_s
    assert not machine.look(cpu=LEAST_CPU_S).problem
    machine.engine.work = 512
    assert not machine.look(cpu=LEAST_CPU_S).problem


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="states of threads are read from Linux's /proc")
def test_threads_are_looked_at() -> None:
    found: list[bool] = []
    looking = threading.Thread(target=lambda: found.append(find_whether_asleep()))
    looking.start()
    looking.join()
    until_s = time.monotonic() + 10

    def look_while_busy() -> None:
        while time.monotonic() < until_s and (not found or found[-1]):
            found.append(find_whether_asleep())

    looking = threading.Thread(target=look_while_busy)
    looking.start()
    while looking.is_alive():
        pass  # busy
    assert not found[-1]
    assert read_state(Path("/proc/self/stat")) == "R"
