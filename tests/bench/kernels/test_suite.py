from pathlib import Path

import pytest

from pelton.backends.cpu import get_isa
from pelton.bench.kernels import suite as module
from pelton.bench.kernels.model_shape import ModelShape
from pelton.bench.kernels.selection import OPS, list_available_isas, parse_selection
from pelton.bench.kernels.suite import (
    DEFAULT_CACHE_BYTES,
    Suite,
    count_rows,
    measure_kernels,
    read_cache_bytes,
    use_isa,
)

pytestmark = pytest.mark.cpu

TINY = ModelShape(hidden_size=64, intermediate_size=96, num_heads=4, num_kv_heads=2, head_dim=16, vocab_size=128)


def make_suite(*words: str) -> Suite:
    return Suite(
        selection=parse_selection(words), num_threads=1, cache_bytes=10_000, seconds=0.001, read_bytes=64 << 20
    )


def test_every_op_on_every_instruction_set(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "MODEL_SHAPES", {"qwen2.5-0.5b": TINY})
    before = get_isa()
    suite = make_suite("rows=1,3", "scheme=Q4_0", "matrix=o,gate_up", "context=40", "isa=all")
    rows = list(measure_kernels(suite))
    assert len(rows) == count_rows(suite)
    assert {(row["op"], row["isa"]) for row in rows} == {(op, isa) for op in OPS for isa in list_available_isas()}
    assert all(row["time_us"] > 0 and row["gb_per_s"] > 0 and row["percent_of_limit"] > 0 for row in rows)
    assert get_isa() == before


def test_fused_linears_are_measured_at_the_matrices_that_use_them():
    assert count_rows(make_suite("op=linear", "scheme=Q4_0", "rows=1")) == 5
    assert count_rows(make_suite("op=linear_add", "scheme=Q4_0", "rows=1")) == 2
    assert count_rows(make_suite("op=linear_gated", "scheme=Q4_0,Q8_0", "rows=1,2")) == 4


def test_decode_has_the_usual_numbers_of_requests_among_the_rows():
    assert count_rows(make_suite("op=attention", "rows=1,2,8", "context=64")) == 3
    assert count_rows(make_suite("op=attention", "rows=2,3", "context=64")) == 2


def test_the_instruction_set_is_put_back():
    before = get_isa()
    with use_isa("generic"):
        assert get_isa() == "generic"
    assert get_isa() == before


@pytest.mark.parametrize(("text", "size"), [("32768K\n", 32 << 20), ("8M", 8 << 20), ("512", 512)])
def test_the_size_of_the_cache(tmp_path: Path, text: str, size: int):
    (tmp_path / "size").write_text(text)
    assert read_cache_bytes(tmp_path / "size") == size
    assert read_cache_bytes(tmp_path / "none") == DEFAULT_CACHE_BYTES
