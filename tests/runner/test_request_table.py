"""Rows stay where they are, are cleaned when they change hands, and are never more than there may be."""

import numpy as np
import pytest
from tests.engine.fakes import make_request

from pelton.core.step import BlockId, RequestId, ScheduledRequest
from pelton.errors import InternalError
from pelton.runner.request_table import RequestTable

pytestmark = pytest.mark.unit


def schedule(name: str, *block_ids: int) -> tuple[ScheduledRequest, ...]:
    return (
        ScheduledRequest(
            request_id=RequestId(name),
            num_computed_tokens=0,
            num_scheduled_tokens=1,
            block_ids=tuple(map(BlockId, block_ids)),
        ),
    )


def make_table(num_rows: int = 2) -> RequestTable:
    return RequestTable(num_rows, 16, 4, 1000, server_seed=1)


def test_rows_do_not_move() -> None:
    table = make_table(3)
    for name in ("a", "b", "c"):
        table.add(make_request(name))
    row = table.gather_rows(schedule("c", 1))[0]
    table.remove(RequestId("a"))
    table.add(make_request("d"))
    assert table.gather_rows(schedule("c", 1))[0] == row
    assert table.num_requests == 3


def test_row_holds_nothing_of_the_request_before() -> None:
    table = make_table(1)
    table.add(make_request("a", 9, temperature=0.5, logit_bias={3: 1.0}, seed=4, presence_penalty=1.0))
    table.gather_rows(schedule("a", 7, 8, 9))
    table.remove(RequestId("a"))
    table.add(make_request("b", [5, 6], outputs=(7,)))
    row = table.gather_rows(schedule("b", 2))[0]
    assert table.block_table_NM[row].tolist() == [2, -1, -1, -1]
    assert table.token_ids_NZ[row, :3].tolist() == [5, 6, 7]
    assert (table.num_tokens_N[row], table.num_prompt_N[row]) == (3, 2)
    assert (table.temperature_N[row], table.presence_N[row]) == (0, 0)
    assert not table.has_penalties_N[row]
    assert not table.has_bias_N[row]


def test_block_tables_grow() -> None:
    table = make_table()
    table.add(make_request("a"))
    row = table.gather_rows(schedule("a", 3))[0]
    table.gather_rows(schedule("a", 3, 1))
    table.gather_rows(schedule("a", 3, 1))
    assert table.block_table_NM[row].tolist() == [3, 1, -1, -1]


def test_append_leaves_out_what_is_no_token() -> None:
    table = make_table()
    table.add(make_request("a", [1]))
    table.add(make_request("b", [2]))
    rows_S = np.concatenate([table.gather_rows(schedule("a")), table.gather_rows(schedule("b"))])
    table.append(rows_S, np.array([-1, 4], np.int32))
    assert table.num_tokens_N[rows_S].tolist() == [1, 2]
    assert table.token_ids_NZ[rows_S[1], 1] == 4


def test_more_requests_than_rows_is_our_fault() -> None:
    table = make_table(1)
    table.add(make_request("a"))
    with pytest.raises(InternalError, match=r"'a' has a row already"):
        table.add(make_request("a"))
    with pytest.raises(InternalError, match=r"'b' finds all 1 rows in use"):
        table.add(make_request("b"))
