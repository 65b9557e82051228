"""What the tree finds, forgets, and says of what it did not find."""

from array import array

import pytest

from pelton.core.step import BlockId, RequestId
from pelton.kvcache.block_pool import LOW, NORMAL, WORTHLESS, BlockPool
from pelton.kvcache.prefix_tree import Node, PrefixTree, rank_of

pytestmark = pytest.mark.unit
BLOCK = 4


def tokens(*values: int) -> "array[int]":
    return array("i", values)


def make_tree(num_blocks: int = 8) -> PrefixTree:
    return PrefixTree(BlockPool(num_blocks, BLOCK))


def put(tree: PrefixTree, salt: str, *values: int) -> list[Node]:
    """Compute a sequence of full blocks and let go of it."""
    found = tree.find(salt, tokens(*values), len(values))
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
    match = tree.find("", tokens(0, 1, 2, 3, 4, 5, 9, 9, 9), 8)
    assert (match.nodes, match.promised, match.source, match.num_partial) == (nodes[:2], None, nodes[2], 2)
    assert tree.find("", tokens(*range(8)), 7).num_partial == 3
    assert tree.find("x", tokens(*range(8)), 8).nodes[1:] == []


def test_a_promise_is_waited_for_until_it_is_kept_or_broken() -> None:
    tree = make_tree()
    root = tree.find("", tokens(), 0).nodes[0]
    (block_id,) = tree.pool.acquire(1)
    node = tree.add(root, tokens(0, 1, 2, 3).tobytes(), block_id, is_computed=False)
    assert tree.find("", tokens(*range(5)), 4).promised is node
    assert tree.add(root, node.key, BlockId(7), is_computed=False) is node
    node.waiting.append(RequestId("w"))
    tree.set_computed(node)
    assert tree.take_woken() == ["w"]
    assert tree.find("", tokens(*range(5)), 4).promised is None
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

    def why(salt: str, *values: int) -> str:
        return tree.find(salt, tokens(*values), len(values)).why

    assert why("a", *range(8)) == "end"
    assert why("a", *range(11)) == "end"
    assert why("b", *range(8)) == "other_salt"
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
