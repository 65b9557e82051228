"""Memory that is aligned, zero and checked."""

import pytest

from pelton.errors import ConfigError
from pelton.runner.kv_pool import LARGE_PAGE_BYTES, KvPool

pytestmark = pytest.mark.unit


def test_memory_is_aligned_writable_and_zero() -> None:
    pool = KvPool(3, 1000)
    assert pool.memory.nbytes == 3000
    assert pool.memory.ctypes.data % LARGE_PAGE_BYTES == 0
    assert not pool.memory.any()
    pool.memory[-1] = 7
    assert pool.memory[-1] == 7


def test_more_than_is_free_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"4 blocks need 4.00 GiB and 3.50 GiB are free.*at most 3 blocks fit"):
        KvPool(4, 2**30, available_bytes=7 * 2**29)


def test_what_the_system_refuses_is_a_clear_error() -> None:
    with pytest.raises(ConfigError, match="the system refuses to map"):
        KvPool(1, 2**60)
