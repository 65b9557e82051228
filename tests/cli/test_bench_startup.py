from pathlib import Path

import pytest

from pelton.bench import startup
from pelton.cli.main import main

pytestmark = pytest.mark.cpu


def test_settings_reach_the_processes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    asked = []

    def start_engine(path: Path, settings: dict[str, object], _: object) -> dict[str, float]:
        asked.append((path, settings))
        return dict.fromkeys([*startup.PHASES, "process_s", "peak_bytes"], 1.0)

    def start_server(path: Path, settings: dict[str, object], _: object) -> dict[str, float]:
        asked.append((path, settings))
        return dict.fromkeys(["ready_s", "server_bytes", "engine_bytes"], 1.0)

    monkeypatch.setattr(startup, "start_engine", start_engine)
    monkeypatch.setattr(startup, "start_server", start_server)
    (tmp_path / "config.json").write_text("{}")
    assert main(["bench", "startup", str(tmp_path), "--repeat", "1", "--max-model-len", "2k", "--markdown"]) == 0
    assert asked == [(tmp_path, {"max_model_len": 2000})] * 3
    assert "| load and pack the weights |" in capsys.readouterr().out
