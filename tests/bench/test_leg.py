"""Our engine as a contestant: the same words and the same ids as the peers' scripts."""

import importlib.util
import io
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest
from tests.engine.fakes import HashExecutor, make_engine
from tests.fakes import TinyModel

from pelton.bench import leg
from pelton.bench.leg import answer, main, make_prompts, time_batch
from pelton.errors import ConfigError, InternalError

WORKLOAD = Path(__file__).parents[2] / "benchmarks" / "peers" / "workload.py"


@pytest.fixture(scope="module")
def workload() -> ModuleType:
    """What the peers' scripts share. They run in environments without Pelton, so it is no module of ours."""
    spec = importlib.util.spec_from_file_location("peer_workload", WORKLOAD)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.unit
def test_peers_get_the_same_ids_and_the_same_defaults(workload: ModuleType) -> None:
    assert workload.make_prompts(3, 20, 7, 5, 50) == make_prompts(3, 20, 7, 5, 50)
    assert workload.DEFAULTS == leg.DEFAULTS


@pytest.mark.unit
def test_both_answer_a_request_with_the_same_runs(workload: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """The prompts and numbers of tokens of a leg, as an engine sees them."""
    request = {"batch": 2, "prompt": 3, "output": 4, "depth": 2, "seed": 5, "first_id": 1, "last_id": 9}
    runs: dict[str, list[tuple[list[list[int]], int]]] = {"ours": [], "theirs": []}

    class Engine:
        def prepare(self, batch: int, length: int) -> None:
            assert (batch, length) == (2, 10)

        def generate(self, prompts: list[list[int]], new_tokens: int) -> None:
            runs["theirs"].append((prompts, new_tokens))

    def time_it(_engine: object, prompts: list[list[int]], num_tokens: int) -> float:
        runs["ours"].append((prompts, num_tokens))
        return float(num_tokens)

    monkeypatch.setattr(leg, "time_batch", time_it)
    assert answer(make_engine(), request) == {"prefill_s": 1.0, "decode_s": 4.0}
    workload.answer_leg(Engine(), request)
    assert runs["ours"] == runs["theirs"]
    assert [num_tokens for _, num_tokens in runs["ours"]] == [1, 5]
    assert runs["ours"][0][0] != runs["ours"][1][0]


@pytest.mark.unit
def test_a_request_that_cannot_run_is_an_error_and_not_the_end() -> None:
    engine = make_engine(executor=HashExecutor(64, 4), max_model_len=16)
    assert "error" in answer(engine, {"batch": 1, "prompt": 20, "output": 2, "first_id": 0, "last_id": 3})
    with pytest.raises(InternalError, match="leg: a request failed"):
        time_batch(engine, [[1] * 20], 2)
    found = answer(engine, {"batch": 2, "prompt": 5, "output": 2, "first_id": 0, "last_id": 3})
    assert set(found) == {"prefill_s", "decode_s"}
    assert not engine.has_work


@pytest.mark.unit
def test_settings_are_one_argument() -> None:
    with pytest.raises(ConfigError, match="wants the settings as one JSON object"):
        main([], io.StringIO(), io.StringIO())


@pytest.mark.cpu
def test_a_model_is_loaded_once_and_answers(tmp_path: Path) -> None:
    folder = str(TinyModel().write(tmp_path / "tiny"))
    settings = {"model": folder, "num_threads": 1, "kv_cache_memory_bytes": "1MiB", "max_model_len": 64}
    work = {"batch": 2, "prompt": 8, "output": 3, "first_id": 1, "last_id": 200}
    stdin = io.StringIO("".join(json.dumps({**work, "seed": seed}) + "\n" for seed in (1, 2)))
    stdout = io.StringIO()
    assert main([json.dumps(settings)], stdin, stdout) == 0
    facts, *legs = (json.loads(line) for line in stdout.getvalue().splitlines())
    assert (facts["engine"], facts["model"]) == ("pelton", folder)
    assert len(legs) == 2
    assert all(each["prefill_s"] > 0 for each in legs)
    assert sys.stdout is not stdout
