from typing import final

import pytest
from tests.engine.fakes import VOCAB_SIZE, HashExecutor, make_engine

from pelton.backends.executable import Bytes, Executable, StepInputs, StepResult
from pelton.bench.offline import Workload
from pelton.bench.step_profile import make_phase, profile_offline
from pelton.errors import ConfigError

pytestmark = pytest.mark.unit


@final
class Profiled(Executable):
    """Says that each profile it was asked for took a little longer than the one before."""

    def __init__(self, *, has_profile: bool = True) -> None:
        self.num_started = 0
        self.has_profile = has_profile

    @property
    def kv_bytes_per_block(self) -> int:
        return 1

    def bind_kv(self, memory: Bytes, num_blocks: int) -> None:
        raise AssertionError("not asked for")

    def copy_block(self, source: int, target: int) -> None: ...

    def run(self, inputs: StepInputs, *, want_logits: bool = False) -> StepResult:
        raise AssertionError("not asked for")

    def explain(self) -> list[tuple[str, str, str]]:
        return []

    def start_profile(self) -> None:
        self.num_started += 1

    def profile(self) -> dict[str, float]:
        return {"linear": 1e-9 * self.num_started, "barrier": 1e-10} if self.has_profile else {}


def test_prefill_and_decode_have_profiles_of_their_own():
    workload = Workload(batch=2, prompt_tokens=10, output_tokens=5)
    engine = make_engine(executor=HashExecutor(64, 4))
    prefill, decode = profile_offline(engine, Profiled(), workload, vocab_size=VOCAB_SIZE)
    assert (prefill.phase, decode.phase) == ("prefill", "decode")
    assert prefill.num_steps == 1
    assert decode.num_steps >= 5
    assert prefill.parts_s["linear"] == pytest.approx(1e-9)
    assert decode.parts_s["linear"] == pytest.approx(2e-9)
    assert decode.parts_s["host"] > 0
    assert sum(decode.parts_s.values()) == pytest.approx(decode.total_s)


def test_requests_that_begin_early_end_early_and_the_rest_is_not_counted():
    workload = Workload(batch=3, prompt_tokens=16, output_tokens=5)
    engine = make_engine(executor=HashExecutor(64, 4), max_num_batched_tokens=16)
    executable = Profiled()
    prefill, decode = profile_offline(engine, executable, workload, vocab_size=VOCAB_SIZE)
    assert prefill.num_steps > 1
    assert decode.num_steps >= 5
    assert decode.num_steps < engine.stats().num_steps - prefill.num_steps
    assert decode.parts_s["linear"] == pytest.approx(2e-9)


def test_a_backend_without_a_profile_is_refused():
    workload = Workload(batch=1, prompt_tokens=4, output_tokens=2)
    engine = make_engine(executor=HashExecutor(64, 4))
    with pytest.raises(ConfigError, match=r"^--profile: this backend does not take the time of its ops"):
        profile_offline(engine, Profiled(has_profile=False), workload, vocab_size=VOCAB_SIZE)


def test_rows_are_shares_of_the_step_the_largest_first():
    phase = make_phase("decode", 4, 8.0, {"barrier": 1.0, "linear": 5.0})
    rows = list(phase.make_rows(2))
    assert [(row["part"], row["ms_per_step"], row["percent"]) for row in rows] == [
        ("step", 2000.0, 100.0),
        ("linear", 1250.0, 62.5),
        ("host", 500.0, 25.0),
        ("barrier", 250.0, 12.5),
    ]
    assert {(row["batch"], row["phase"]) for row in rows} == {(2, "decode")}
