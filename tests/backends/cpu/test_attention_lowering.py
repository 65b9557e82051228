"""Attention on the native backend: near its definition for every cache, instruction set and shape; the same bits
however the tokens come; and nothing is read that is not seen.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from tests.steps import dense_weight, program, step

from pelton.backends.cpu import CpuBackend, _native, get_detected_isa, get_isa, set_isa
from pelton.backends.executable import Executable, Limits
from pelton.backends.reference import ReferenceBackend
from pelton.errors import BackendError
from pelton.plan import Plan, Recorder, WeightRef, ops

pytestmark = pytest.mark.cpu

ISAS = ("generic", "avx2", "avx512")
AVAILABLE = ISAS[: ISAS.index(get_detected_isa()) + 1]
VOCAB = 50
LIMITS = Limits(
    max_num_batched_tokens=640,
    max_num_requests=8,
    max_num_logits_rows=640,
    block_size=32,
    max_blocks_per_request=20,
    num_threads=2,
)
# Of values around one. Queries and weights are rounded to bfloat16 too, except where the cache is float32.
TOLERANCE = {"bfloat16": 2e-2, "int8": 2e-2, "float32": 1e-5}
# heads, kv heads, head size, window, soft-cap, sinks
Shape = tuple[int, int, int, int | None, float | None, bool]
SHAPES: tuple[Shape, ...] = (
    (7, 1, 64, None, None, False),
    (4, 4, 33, None, None, True),
    (14, 2, 64, 100, None, False),
    (3, 1, 128, 520, 4.0, True),
    (71, 1, 5, None, 2.0, False),
    (4, 1, 256, 17, None, False),
    (16, 2, 96, None, None, True),
    (10, 2, 72, 33, None, False),
)


@pytest.fixture(params=AVAILABLE)
def isa(request: pytest.FixtureRequest) -> Iterator[str]:
    before = get_isa()
    set_isa(request.param)
    yield request.param
    set_isa(before)


def attention_plan(shape: Shape) -> tuple[Plan, dict]:
    """Attention over rows of a table, shown as logits; and the weights."""
    num_heads, num_kv_heads, head_dim, window, softcap, has_sinks = shape
    rng = np.random.default_rng(0)
    sizes = {"q": num_heads * head_dim, "k": num_kv_heads * head_dim, "v": num_kv_heads * head_dim}
    arrays = {name: rng.normal(size=(VOCAB, size)).astype(np.float32) for name, size in sizes.items()}
    sinks = None
    if has_sinks:
        arrays["sinks"] = (3 * rng.normal(size=num_heads)).astype(np.float32)
        sinks = WeightRef("sinks", (num_heads,))
    p = Recorder()
    q, k, v = (ops.embedding(p, p.token_ids, WeightRef(name, (VOCAB, size))) for name, size in sizes.items())
    q, k, v = ops.heads(p, q, num_heads), ops.heads(p, k, num_kv_heads), ops.heads(p, v, num_kv_heads)
    settings = {"scale": head_dim**-0.5, "window": window, "softcap": softcap, "sinks_H": sinks}
    y = ops.attention(p, q, k, v, 0, **settings)
    weights = {name: dense_weight(name, array) for name, array in arrays.items()}
    return p.plan(ops.select_rows(p, y)), weights


def logits(executable: Executable, ids: list[int], start: int, blocks: list[int], limits: Limits) -> np.ndarray:
    inputs = step([(ids, start)], block_tables=[blocks], limits=limits)
    return executable.run(inputs, want_logits=True).logits_SV


def token_ids(count: int) -> list[int]:
    return np.random.default_rng(1).integers(0, VOCAB, count).tolist()


@pytest.mark.parametrize("kv_dtype", ["bfloat16", "int8", "float32"])
@pytest.mark.parametrize("shape", SHAPES)
def test_long_contexts(shape: Shape, kv_dtype: str, isa: str) -> None:
    """Beyond one split of 512 tokens, odd head sizes, groups larger than a tile; chunks, blocks and threads give the
    same bits.
    """
    plan, weights = attention_plan(shape)
    limits = replace(LIMITS, kv_dtype=kv_dtype)
    ids, blocks = token_ids(620), np.random.default_rng(2).permutation(20).tolist()
    oracle = program(ReferenceBackend("float32"), plan, weights, limits)
    expected = logits(oracle, ids, 0, blocks, limits)
    executable = program(CpuBackend(), plan, weights, limits)
    actual = logits(executable, ids, 0, blocks, limits)
    assert np.abs(actual - expected).max() <= TOLERANCE[kv_dtype]
    last = logits(executable, ids[-1:], 619, blocks, limits)
    np.testing.assert_array_equal(last, actual[-1:], "splits on two threads")
    other = replace(limits, block_size=16, max_blocks_per_request=39, num_threads=1)
    small_blocks = program(CpuBackend(), plan, weights, other)
    pieces = [
        logits(small_blocks, ids[first:end], first, list(range(39)), other)
        for first, end in ((0, 1), (1, 40), (40, 349), (349, 350), (350, 620))
    ]
    np.testing.assert_array_equal(np.concatenate(pieces), actual)


@pytest.mark.parametrize("kv_dtype", ["bfloat16", "int8", "float32"])
@pytest.mark.parametrize("window", [1, 16, 100, 515])
def test_what_no_window_reaches_is_not_read(window: int, kv_dtype: str, isa: str) -> None:
    """Blocks before the window may be anything, even not a number, and change nothing."""
    plan, weights = attention_plan((8, 2, 40, window, None, False))
    limits = replace(LIMITS, kv_dtype=kv_dtype)
    executable = CpuBackend().compile(plan, weights, limits)
    per_block = executable.kv_bytes_per_block
    memory = np.full(20 * per_block + 64, 0xFF, np.uint8)
    memory = memory[-memory.ctypes.data % 64 :]
    executable.bind_kv(memory, 20)
    ids = token_ids(620)
    expected = logits(executable, ids, 0, list(range(20)), limits)
    seen_from = max(0, 600 - window + 1) // limits.block_size
    memory[: seen_from * per_block] = 0xFF
    np.testing.assert_array_equal(logits(executable, ids[600:], 600, list(range(20)), limits), expected[600:])


def stored_cache(kv_dtype: str, chunks: tuple[int, ...]) -> np.ndarray:
    """The bytes of the cache after steps that end at `chunks`."""
    plan, weights = attention_plan((4, 2, 21, None, None, False))
    limits = replace(LIMITS, kv_dtype=kv_dtype, block_size=16)
    executable = CpuBackend().compile(plan, weights, limits)
    memory = np.zeros(4 * executable.kv_bytes_per_block, np.uint8)
    executable.bind_kv(memory, 4)
    ids = token_ids(64)
    for first, end in zip((0, *chunks), chunks, strict=False):
        logits(executable, ids[first:end], first, [2, 0, 3, 1], limits)
    return memory


@pytest.mark.parametrize("kv_dtype", ["bfloat16", "int8", "float32"])
def test_the_cache_holds_the_same_bytes(kv_dtype: str, isa: str) -> None:
    """On every instruction set, whether tokens come one by one or many at once."""
    before = get_isa()
    set_isa("generic")
    expected = stored_cache(kv_dtype, (55,))
    set_isa(before)
    assert expected.any()
    for chunks in ((55,), (1, 2, 5, 6, 20, 55), tuple(range(1, 56))):
        np.testing.assert_array_equal(stored_cache(kv_dtype, chunks), expected)


def test_an_int8_cache_takes_little_more_than_half() -> None:
    plan, weights = attention_plan((4, 2, 64, None, None, False))
    sizes = {
        kv_dtype: CpuBackend().compile(plan, weights, replace(LIMITS, kv_dtype=kv_dtype)).kv_bytes_per_block
        for kv_dtype in ("auto", "bfloat16", "float32", "int8")
    }
    per_token = {kv_dtype: size // LIMITS.block_size for kv_dtype, size in sizes.items()}
    assert per_token == {"auto": 512, "bfloat16": 512, "float32": 1024, "int8": 2 * 2 * (64 + 4)}
    exact = CpuBackend().compile(plan, weights, replace(LIMITS, exact=True))
    assert exact.kv_bytes_per_block == sizes["float32"]


@pytest.mark.parametrize("poison", [np.nan, np.inf])
def test_what_is_not_finite_stays_visible_in_int8(poison: float, isa: str) -> None:
    """A scale of a poisoned head must not turn it into sound numbers; other heads are what they were."""
    plan, weights = attention_plan((4, 2, 32, None, None, False))
    limits = replace(LIMITS, kv_dtype="int8")
    clean = logits(program(CpuBackend(), plan, weights, limits), [1, 2, 3, 4], 0, [0], limits)
    weights["v"].parts[0].payload.view(np.float32)[3, 37:38] = poison
    rows = logits(program(CpuBackend(), plan, weights, limits), [1, 2, 3, 4], 0, [0], limits)
    assert np.isnan(rows[2:, 64:]).all()
    np.testing.assert_array_equal(rows[:, :64], clean[:, :64])


def groups_of(tables: list[list[int]], contexts: list[int], num_tokens: list[int]) -> list[tuple[int, int, list[int]]]:
    """What is found to be shared by requests with blocks of 64 tokens, of which the last `num_tokens` are new."""
    positions = [p for c, n in zip(contexts, num_tokens, strict=True) for p in range(c - n, c)]
    width = max(map(len, tables))
    table = np.array([[*blocks, *[-1] * (width - len(blocks))] for blocks in tables], np.int32)
    start = np.cumsum([0, *num_tokens], dtype=np.int32)
    return _native.prefix_groups(np.array(positions, np.int32), start, table, 64)


def test_requests_that_begin_with_the_same_blocks_are_found() -> None:
    common = list(range(100, 120))  # 1280 tokens: two whole splits
    tables = [[*common, 1], [7, *range(20)], [*common, 2], [*common[:8], *range(30, 50)], [*common, 3]]
    ones = [1] * 5
    assert groups_of(tables, [1300] * 5, ones) == [(0, 2, [0, 2, 4])], "one split less is not worth a third request"
    assert groups_of([tables[0], tables[3]], [1300, 1300], [1, 1]) == [(0, 1, [0, 1])]
    assert groups_of([tables[0], tables[2]], [1300, 1025], [1, 1]) == [(0, 2, [0, 1])]
    assert groups_of([tables[0], tables[2]], [1300, 1024], [1, 1]) == [(0, 1, [0, 1])], "a token sees itself last"
    assert groups_of([tables[0], tables[2]], [1300, 512], [1, 1]) == []
    assert groups_of([tables[0], tables[1]], [1300, 1300], [1, 1]) == []
    two = [tables[1], tables[0], tables[1], tables[2]]
    assert groups_of(two, [1300] * 4, [1] * 4) == [(0, 2, [0, 2]), (1, 2, [1, 3])]


def test_tokens_of_groups_are_limited() -> None:
    """A chunk of a prompt shares each line among its own tokens; the tokens of all groups are as many as requests."""
    blocks = list(range(9))
    assert groups_of([blocks] * 3, [520] * 3, [1, 5, 1]) == [(0, 1, [0, 6])]
    assert groups_of([blocks] * 4, [520] * 4, [2, 2, 0, 0]) == [(0, 1, [0, 1, 2, 3])]
    assert groups_of([blocks] * 3, [520] * 3, [2, 2, 0]) == []


@pytest.mark.parametrize("kv_dtype", ["bfloat16", "int8", "float32"])
@pytest.mark.parametrize("num_threads", [1, 2])
@pytest.mark.parametrize(
    "shape", [(14, 2, 64, None, None, False), (4, 1, 40, None, 3.0, True), (6, 2, 16, 600, None, False)]
)
def test_a_shared_prefix_changes_nothing(shape: Shape, num_threads: int, kv_dtype: str, isa: str) -> None:
    """Requests that hold the same first blocks give the bits that each gives alone."""
    plan, weights = attention_plan(shape)
    limits = replace(LIMITS, kv_dtype=kv_dtype, max_blocks_per_request=40, num_threads=num_threads)
    executable = program(CpuBackend(), plan, weights, limits, num_blocks=64)
    ids, common = token_ids(1250), np.random.default_rng(3).permutation(36).tolist()
    for first in (0, 600):
        logits(executable, ids[first : first + 600], first, [*common, 36, 37], limits)
    # what each computed before and computes in the step, and its blocks: two splits in common, one, or none
    batch = [
        (1100, 1, [*common[:32], 40, 41, 42, 43]),
        (1030, 3, [*common[:32], 44]),
        (700, 1, [*common[:16], 45, 46, 47, 48, 49, 50]),
        (1024, 40, [*common[:32], 51, 52]),
        (1199, 1, [*common[:36], 36, 37]),
        (90, 1, [53, 54, 55]),
    ]
    for computed, _, blocks in batch:
        shared = {1100: 1024, 1030: 1024, 700: 512, 1024: 1024, 1199: 1199, 90: 0}[computed]
        if computed > shared:
            logits(executable, ids[shared:computed], shared, blocks, limits)
    alone = [logits(executable, ids[c : c + n], c, blocks, limits) for c, n, blocks in batch]
    inputs = step(
        [(ids[c : c + n], c) for c, n, _ in batch], block_tables=[blocks for *_, blocks in batch], limits=limits
    )
    together = executable.run(inputs, want_logits=True).logits_SV
    assert len(_native.prefix_groups(inputs.positions_T, inputs.query_start_R1, inputs.block_table_RM, 32)) == 1
    np.testing.assert_array_equal(together, np.concatenate(alone))


@pytest.mark.parametrize("backend", [CpuBackend(), ReferenceBackend()])
def test_a_dtype_without_kernels_is_refused(backend: CpuBackend | ReferenceBackend) -> None:
    plan, weights = attention_plan((1, 1, 32, None, None, False))
    with pytest.raises(BackendError, match=r"keys and values cannot be stored as 'int9'\. Did you mean 'int8'"):
        backend.compile(plan, weights, replace(LIMITS, kv_dtype="int9"))
