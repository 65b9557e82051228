"""The three files of a comparison."""

import json
from datetime import date
from pathlib import Path

import pytest
from tests.bench.blocks import calibration_of, make_block

from pelton.bench.comparison import Work
from pelton.bench.comparison_record import ComparisonRecord, save_comparison
from pelton.bench.machine import Machine
from pelton.bench.peer_process import PeerFacts
from pelton.bench.record import Record
from pelton.bench.verdict import judge
from pelton.errors import ConfigError

pytestmark = pytest.mark.unit
MACHINE = Machine(cpu_name="Zen 4", num_cores=2, num_cpus=4, memory_bytes=1 << 30, isa="avx512")
WORK = Work(batch=8, prompt=100, output=50)
BLOCKS = [make_block(WORK, ours_s=1, theirs_s=2), make_block(WORK, ours_s=1, theirs_s=9, dropped="stolen")]
COMPARISON = ComparisonRecord(
    ours=PeerFacts(engine="pelton", version="1", model="/models/a.gguf", precision="Q4_K", load_s=1.0),
    theirs=PeerFacts(engine="other", version="2", model="b", precision="", load_s=9.0),
    blocks=BLOCKS,
    verdicts=judge(BLOCKS),
)
RECORD = Record(
    name="compare-other",
    day=date(2026, 1, 2),
    machine=MACHINE,
    commit="abc",
    command="pelton bench compare a.gguf",
    calibration_before=calibration_of(),
    calibration_after=calibration_of(),
    rows=tuple(COMPARISON.rows),
)


def test_figures_table_and_plot_lie_side_by_side(tmp_path: Path) -> None:
    path = save_comparison(RECORD, COMPARISON, tmp_path / "new")
    assert path.name == "2026-01-02-zen-4-2core-compare-other.json"
    found = json.loads(path.read_text())
    assert found["theirs"]["engine"] == "other"
    assert [block["dropped"] for block in found["blocks"]] == [None, "stolen"]
    assert found["blocks"][0]["calibrations"][0]["state"] == "far"
    assert [row["ratio"] for row in found["rows"]] == [2, 2]
    page = path.with_suffix(".md").read_text()
    assert "# pelton 1 (a.gguf, Q4_K) against other 2 (b)" in page
    assert "    pelton bench compare a.gguf" in page
    assert "- block 1 at batch 8: stolen" in page
    assert "Each request: 100 prompt tokens, 50 decoded" in page
    assert path.with_suffix(".svg").read_text().startswith("<svg")
    assert save_comparison(RECORD, COMPARISON, tmp_path / "new").name.endswith("compare-other-2.json")


def test_a_folder_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"--save: .* cannot be written \(.*Give a directory"):
        save_comparison(RECORD, COMPARISON, tmp_path / "file")
