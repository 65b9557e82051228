"""The whole cache under every order of calls, on a memory that notices a wrong slot and against a naive search."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.kvcache.simulated_memory import ALICE, SimulatedMemory

from pelton.errors import CapacityError, RequestError
from pelton.kvcache.block_pool import LOW, NORMAL
from pelton.kvcache.prefix_tree import Salt

pytestmark = pytest.mark.unit

BOB, ALICE_X = Salt("bob"), Salt("alice", "x")


class CacheMachine(RuleBasedStateMachine):
    """Admit, compute, go on, wait, end, fail, name, let time pass, in any order, on a pool that is too small."""

    def __init__(self) -> None:
        super().__init__()
        self.memory = SimulatedMemory(num_blocks=12, block_size=2)
        self.waiting: set[str] = set()
        self.now_s = 0.0
        self.num_made = 0

    def get_names(self, is_admitted: bool) -> list[str]:
        return [name for name, request in self.memory.requests.items() if (request.lease is not None) == is_admitted]

    @rule(
        prompt=st.lists(st.integers(0, 1), min_size=1, max_size=11),
        salt=st.sampled_from([ALICE, ALICE, BOB, ALICE_X]),
        rank=st.sampled_from([LOW, NORMAL]),
    )
    def make(self, prompt: list[int], salt: Salt, rank: int) -> None:
        self.memory.make(str(self.num_made), prompt, salt, rank)
        self.num_made += 1

    @precondition(lambda self: self.get_names(False))
    @rule(data=st.data(), num_reserved=st.integers(0, 2), num_more=st.integers(0, 3))
    def admit(self, data: st.DataObject, num_reserved: int, num_more: int) -> None:
        name = data.draw(st.sampled_from(self.get_names(False)))
        request = self.memory.requests[name]
        num_kept = self.memory.find_naively(request.salt, request.tokens)
        num_free = self.memory.pool.num_free
        if name in self.waiting:
            return
        if request.wait():
            self.waiting.add(name)
        elif request.admit(num_reserved, num_more):
            assert request.num_cached // self.memory.block_size == num_kept
            assert self.memory.pool.num_free >= num_reserved
        else:
            assert self.memory.pool.num_free == num_free

    @precondition(lambda self: self.get_names(True))
    @rule(data=st.data(), num_tokens=st.integers(1, 6))
    def compute(self, data: st.DataObject, num_tokens: int) -> None:
        self.memory.requests[data.draw(st.sampled_from(self.get_names(True)))].compute(num_tokens)

    @precondition(lambda self: self.get_names(True))
    @rule(data=st.data(), token_ids=st.lists(st.integers(0, 1), min_size=1, max_size=4))
    def go_on(self, data: st.DataObject, token_ids: list[int]) -> None:
        request = self.memory.requests[data.draw(st.sampled_from(self.get_names(True)))]
        for token_id in token_ids:
            if request.append(token_id):
                request.compute()

    @precondition(lambda self: self.get_names(True))
    @rule(data=st.data(), is_sound=st.booleans(), is_over=st.booleans())
    def release(self, data: st.DataObject, is_sound: bool, is_over: bool) -> None:
        name = data.draw(st.sampled_from(self.get_names(True)))
        self.memory.requests[name].release(is_sound=is_sound)
        if is_over:
            del self.memory.requests[name]

    @rule(
        name=st.sampled_from("pq"),
        salt=st.sampled_from([ALICE, ALICE_X]),
        prefix=st.lists(st.integers(0, 1), max_size=6),
        ttl_s=st.sampled_from([None, 1.0, 5.0]),
    )
    def pin(self, name: str, salt: Salt, prefix: list[int], ttl_s: float | None) -> None:
        try:
            info = self.memory.cache.names.pin(name, salt, tuple(prefix), ttl_s, self.now_s)
        except RequestError:
            assert len(prefix) < 2
        except CapacityError:
            assert len(prefix) >= 2
        else:
            assert info.num_cached_tokens <= info.num_tokens <= len(prefix)

    @rule(name=st.sampled_from("pq"))
    def unpin(self, name: str) -> None:
        self.memory.cache.names.release(name, "alice")

    @rule(num_blocks=st.integers(1, 12))
    def give_way(self, num_blocks: int) -> None:
        self.memory.cache.names.give_way(num_blocks)

    @rule(passed_s=st.sampled_from([0.5, 3.0]))
    def pass_time(self, passed_s: float) -> None:
        self.now_s += passed_s
        self.memory.cache.names.expire(self.now_s)
        assert all((info.ttl_left_s or 1) > 0 for info in self.memory.cache.names.list_of("alice", self.now_s))

    @invariant()
    def sound(self) -> None:
        self.memory.check()
        self.waiting -= set(self.memory.cache.tree.take_woken())
        if not self.memory.copies:
            for request in self.memory.requests.values():
                assert request.read(request.num_computed) == request.get_contents(request.num_computed)

    def teardown(self) -> None:
        for name in self.get_names(True):
            self.memory.requests[name].release()
        for name in "pq":
            self.memory.cache.names.release(name, "alice")
        self.sound()
        assert not self.waiting, "a request waits for nobody"
        assert self.memory.pool.num_free == self.memory.pool.num_blocks
        self.memory.pool.release(self.memory.pool.acquire(12))
        assert self.memory.cache.tree.num_nodes == 0


CacheMachine.TestCase.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
TestCacheMachine = CacheMachine.TestCase
