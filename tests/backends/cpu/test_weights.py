"""Weights as the program wants them: vectors from several parts, tables as stored, and what is refused."""

import numpy as np
import pytest
from tests.backends.cpu.test_linear import random_rows
from tests.steps import dense_weight

from pelton.backends.cpu import _native
from pelton.backends.cpu.weights import WeightStore, cut
from pelton.checkpoint.weight import Tensor, Weight
from pelton.errors import BackendError
from pelton.plan import WeightRef

pytestmark = pytest.mark.cpu

ARRAY = np.arange(12, dtype=np.float32).reshape(3, 4)


def store(*weights: Weight, exact: bool = False) -> WeightStore:
    return WeightStore({weight.name: weight for weight in weights}, exact=exact)


def test_a_missing_weight_and_a_wrong_shape_are_refused_by_name():
    with pytest.raises(BackendError, match=r"'down'.*not among those loaded"):
        store().get(WeightRef("down", (3, 4)))
    with pytest.raises(BackendError, match=r"'down' has shape \(3, 4\)"):
        store(dense_weight("down", ARRAY)).get(WeightRef("down", (4, 3)))


def test_a_table_is_the_stored_bytes_and_is_kept_alive():
    made = store(dense_weight("embed", ARRAY))
    table = made.table(WeightRef("embed", (3, 4)))
    assert np.array_equal(table.payload.view(np.float32), ARRAY)
    assert made.tables[0] is table.payload


def test_a_stacked_table_is_refused():
    part = dense_weight("embed", ARRAY).parts[0]
    with pytest.raises(BackendError, match=r"'embed' is stacked from 2 tensors"):
        store(Weight("embed", (part, part))).table(WeightRef("embed", (6, 4)))


def test_each_part_has_its_own_kind_of_activations():
    q8 = Tensor("v", (3, 32), "Q8_0", np.zeros((3, 34), np.uint8))
    mixed = Weight("qkv", (dense_weight("q", np.zeros((3, 32), np.float32)).parts[0], q8))
    ref = WeightRef("qkv", (6, 32))
    for exact, is_wide, second in (
        (False, False, "Int8"),
        (False, True, "Int8Pair"),
        (True, False, "Float32"),
        (True, True, "Float32"),
    ):
        kinds = store(mixed, exact=exact).activation_kinds(ref, is_wide=is_wide)
        assert [kind.name for kind in kinds] == ["Float32", second]


def test_the_pieces_of_a_matrix_are_its_rows_once_and_in_order(monkeypatch):
    monkeypatch.setattr("pelton.backends.cpu.weights.PIECE_BYTES", 64 * 34)
    rows = np.arange(200 * 34, dtype=np.uint32).astype(np.uint8).reshape(200, 34)
    pieces = list(cut((rows,)))
    assert [(piece.first_strip, piece.last_strip) for piece in pieces] == [(0, 1), (1, 2), (2, 3), (3, 4)]
    assert np.array_equal(np.concatenate([piece.rows[0] for piece in pieces]), rows)
    gates, ups = rows[:96], rows[96:192]
    pieces = list(cut((gates, ups)))
    assert [(piece.first_strip, piece.last_strip) for piece in pieces] == [(0, 1), (1, 2), (2, 3)]
    assert np.array_equal(np.concatenate([piece.rows[1] for piece in pieces]), ups)


def make_program(packed_bytes: int) -> _native.Program:
    sizes = dict.fromkeys(("max_num_tokens", "max_num_requests", "max_num_logits_rows", "block_size"), 16)
    sizes |= dict.fromkeys(("max_blocks_per_request", "vocab_size", "token_rows", "position_rows"), 16)
    sizes |= dict.fromkeys(("buffer_bytes", "scratch_bytes", "kv_block_bytes"), 64)
    return _native.Program(num_threads=2, packed_bytes=packed_bytes, **sizes)


def test_packing_by_pieces_gives_the_bytes_of_packing_at_once_and_tells_how_far_it_is(monkeypatch):
    monkeypatch.setattr("pelton.backends.cpu.weights.PIECE_BYTES", 64 * 34)
    rows = np.random.default_rng(0).integers(0, 256, (200, 34), dtype=np.uint8)
    made = store(Weight("w", (Tensor("w", (200, 32), "Q8_0", rows),)))
    ref = WeightRef("w", (200, 32))
    program = make_program(made.packed_bytes(ref))
    fractions: list[float] = []
    made.place(program, [ref], [])
    made.pack(program, fractions.append)
    expected = _native.pack("Q8_0", rows, 32)
    assert np.array_equal(program.packed()[: expected.size], expected)
    assert fractions == sorted(fractions)
    assert len(fractions) == 4
    assert fractions[-1] == 1.0


@pytest.mark.parametrize("scheme", ["Q8_0", "Q5_0"])
def test_gates_and_ups_are_packed_as_if_their_rows_stood_in_turns(scheme):
    gates, ups = (random_rows(scheme, 96, 64, seed) for seed in (1, 2))
    made = store(Weight("w", (Tensor("gate", (96, 64), scheme, gates), Tensor("up", (96, 64), scheme, ups))))
    ref = WeightRef("w", (192, 64))
    program = make_program(made.packed_bytes(ref))
    made.place(program, [], [ref])
    made.pack(program, lambda _: None)
    in_turns = np.concatenate([rows[first : first + 32] for first in (0, 32, 64) for rows in (gates, ups)])
    expected = _native.pack(scheme, in_turns, 64)
    assert np.array_equal(program.packed()[: expected.size], expected)


def test_rows_of_another_shape_are_not_packed():
    program = make_program(8192)
    matrix = program.place_matrix("Q8_0", 64, 32, False)
    with pytest.raises(ValueError, match="not those of the matrix"):
        program.pack_strips(matrix, np.zeros((63, 34), np.uint8), None, 0, 1)
    with pytest.raises(ValueError, match="not those of the matrix"):
        program.pack_strips(matrix, np.zeros((64, 34), np.uint8), None, 0, 2)


def test_a_checksum_sees_any_one_bit_and_the_length():
    data = np.random.default_rng(0).integers(0, 256, 200, dtype=np.uint8)
    seen = {_native.checksum(data), _native.checksum(data[:199]), _native.checksum(np.append(data, np.uint8(0)))}
    for byte in range(200):
        for bit in range(8):
            changed = data.copy()
            changed[byte] ^= 1 << bit
            seen.add(_native.checksum(changed))
    assert len(seen) == 3 + 1600
