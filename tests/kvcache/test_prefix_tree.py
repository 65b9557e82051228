"""What the tree finds, forgets, and says of what it did not find."""

from array import array
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pelton.core.step import BlockId, RequestId
from pelton.kvcache.block_pool import LOW, NORMAL, WORTHLESS, BlockPool
from pelton.kvcache.prefix_tree import Node, PrefixTree, Salt, count_common_tokens, rank_of

pytestmark = pytest.mark.unit
BLOCK = 4


def tokens(*values: int) -> "array[int]":
    return array("i", values)


def make_tree(num_blocks: int = 8) -> PrefixTree:
    return PrefixTree(BlockPool(num_blocks, BLOCK))


def put(tree: PrefixTree, name: str, *values: int) -> list[Node]:
    """Compute a sequence of full blocks and let go of it."""
    found = tree.find(Salt("", name), tokens(*values), len(values))
    nodes = found.nodes
    new = tree.pool.acquire(len(values) // BLOCK - len(nodes) + 1)
    for index, block_id in zip(range(len(nodes) - 1, len(values) // BLOCK), new, strict=True):
        key = tokens(*values[index * BLOCK : (index + 1) * BLOCK]).tobytes()
        nodes.append(tree.add(nodes[-1], key, block_id, is_computed=True))
    tree.pool.release(new)
    tree.check()
    tree.pool.check()
    return nodes


def test_whole_blocks_and_then_a_part_are_found() -> None:
    tree = make_tree()
    nodes = put(tree, "", *range(8))
    match = tree.find(Salt(), tokens(0, 1, 2, 3, 4, 5, 9, 9, 9), 8)
    assert (match.nodes, match.promised, match.source, match.num_partial) == (nodes[:2], None, nodes[2], 2)
    assert tree.find(Salt(), tokens(*range(8)), 7).num_partial == 3
    assert tree.find(Salt("x"), tokens(*range(8)), 8).nodes[1:] == []


def test_a_promise_is_waited_for_until_it_is_kept_or_broken() -> None:
    tree = make_tree()
    root = tree.find(Salt(), tokens(), 0).nodes[0]
    (block_id,) = tree.pool.acquire(1)
    node = tree.add(root, tokens(0, 1, 2, 3).tobytes(), block_id, is_computed=False)
    assert tree.find(Salt(), tokens(*range(5)), 4).promised is node
    assert tree.add(root, node.key, BlockId(7), is_computed=False) is node
    node.waiting.append(RequestId("w"))
    tree.set_computed(node)
    assert tree.take_woken() == ["w"]
    assert tree.find(Salt(), tokens(*range(5)), 4).promised is None
    node.waiting.append(RequestId("v"))
    tree.drop(node)
    tree.drop(node)
    assert (tree.take_woken(), tree.take_woken(), tree.num_nodes) == (["v"], [], 0)
    tree.check()


def test_a_block_that_is_taken_takes_what_is_behind_it() -> None:
    tree = make_tree(3)
    nodes = put(tree, "", *range(12))
    assert tree.pool.num_kept == 3
    tree.drop(nodes[2])
    assert (tree.num_nodes, tree.pool.num_kept) == (1, 1)
    assert nodes[3].is_gone
    tree.pool.acquire(3)
    assert tree.num_nodes == 0
    tree.check()


def test_important_blocks_stay_important() -> None:
    tree = make_tree()
    (_, node) = put(tree, "", 0, 1, 2, 3)
    tree.set_computed(node, LOW)
    assert node.block_id is not None
    assert tree.pool.get_rank(node.block_id) == NORMAL
    assert (rank_of(0), rank_of(-3), rank_of(1)) == (NORMAL, NORMAL, LOW)


def test_why_no_more_was_found() -> None:
    tree = make_tree(3)
    put(tree, "a", *range(8))

    def why(name: str, *values: int) -> str:
        return tree.explain(tree.find(Salt("", name), tokens(*values), len(values)))

    assert why("a", *range(8)) == "tail"
    assert why("a", *range(11)) == "tail"
    assert why("b", *range(8)) == "salt"
    assert why("a", 0, 1, 2, 3, 9, 9, 9, 9) == "diverged"
    assert why("a", *range(8), 9, 9, 9, 9) == "new"
    assert why("c", 7, 7, 7, 7) == "new"
    tree.pool.acquire(3)
    assert why("a", *range(8)) == "evicted"


def test_clear_forgets_everything() -> None:
    tree = make_tree()
    put(tree, "a", *range(8))
    put(tree, "b", *range(8))
    tree.clear()
    assert (tree.num_nodes, tree.pool.num_kept) == (0, 0)
    assert all(tree.pool.get_rank(BlockId(block_id)) == WORTHLESS for block_id in range(8))
    tree.check()


TOKEN_IDS = st.integers(0, 3)


def count_alike(one: Sequence[int], other: Sequence[int]) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((index for index, (a, b) in pairs if a != b), min(len(one), len(other)))


@settings(deadline=None)
@given(children=st.lists(st.tuples(*[TOKEN_IDS] * BLOCK), max_size=12), wanted=st.lists(TOKEN_IDS, max_size=BLOCK))
def test_partial_match_is_the_longest_of_all_children(children: list[tuple[int, ...]], wanted: list[int]) -> None:
    tree = make_tree(16)
    for child in children:
        put(tree, "", *child)
    match = tree.find(Salt(), tokens(*wanted, 9), min(len(wanted), BLOCK - 1))
    expected = max((count_alike(child, wanted[: BLOCK - 1]) for child in children), default=0)
    assert match.num_partial == expected
    if match.source is not None:
        assert match.source.key.startswith(tokens(*wanted[:expected]).tobytes())


@settings(deadline=None)
@given(*[st.lists(st.one_of(TOKEN_IDS, st.integers(0, 2**31 - 1)), max_size=5)] * 2)
def test_common_beginning(one: list[int], other: list[int]) -> None:
    assert count_common_tokens(tokens(*one).tobytes(), tokens(*other).tobytes()) == count_alike(one, other)


def test_memory_of_evictions_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pelton.kvcache.prefix_tree.MAX_REMEMBERED", 5)
    tree = make_tree(2)
    for number in range(10):
        put(tree, "", number, 1, 2, 3)
    assert len(tree._evicted) == 5
    assert tree.explain(tree.find(Salt(), tokens(7, 1, 2, 3, 4), 4)) == "evicted"
    assert tree.explain(tree.find(Salt(), tokens(1, 1, 2, 3, 4), 4)) == "new"
