from dataclasses import replace
from typing import Any

import pytest
from tests.config.facts import GIB, MACHINE, MODEL

from pelton.config.memory_rule import format_bytes
from pelton.config.resolve import resolve
from pelton.config.user_config import ask
from pelton.errors import ConfigError

pytestmark = pytest.mark.unit

ONE_REQUEST = MODEL.max_position * MODEL.kv_bytes_per_token  # 1 GiB


def resolve_cache(*, available_bytes: int = MACHINE.available_memory_bytes, **asked: Any):
    config, decisions = resolve(ask(**asked), MODEL, replace(MACHINE, available_memory_bytes=available_bytes))
    return config, {d.field: d.why for d in decisions}


def test_weights_that_do_not_fit_are_refused_with_numbers():
    with pytest.raises(ConfigError, match=r"org/big: the weights need 1\.0 GiB of memory and 512\.0 MiB are free"):
        resolve_cache(available_bytes=GIB // 2, model="org/big")


def test_the_pool_is_a_quarter_of_what_is_left():
    config, why = resolve_cache()
    free = MACHINE.available_memory_bytes - MODEL.weight_bytes
    assert 0.24 * free < config.cache.kv_cache_memory_bytes <= 0.25 * free
    assert config.cache.kv_cache_memory_bytes % (32 * MODEL.kv_bytes_per_token) == 0
    assert why["kv_cache_memory_bytes"].startswith("a quarter of the 10.9 GiB")
    assert config.model.max_model_len == MODEL.max_position


def test_the_pool_is_no_larger_than_all_requests_can_fill():
    config, why = resolve_cache(max_num_requests=2, max_model_len=1000)
    assert config.cache.kv_cache_memory_bytes == 2 * 1024 * MODEL.kv_bytes_per_token  # 1000 tokens in whole blocks
    assert config.cache.num_blocks == 64
    assert why["kv_cache_memory_bytes"] == "holds max_num_requests=2 requests of 1000 tokens"


def test_a_long_request_that_is_asked_for_gets_more_than_a_quarter():
    config, why = resolve_cache(available_bytes=3 * GIB, max_model_len=32768)
    assert config.cache.kv_cache_memory_bytes == ONE_REQUEST
    assert why["kv_cache_memory_bytes"] == "one request of max_model_len=32768 needs it"


def test_the_length_follows_a_small_pool():
    config, why = resolve_cache(available_bytes=3 * GIB)
    assert config.model.max_model_len < MODEL.max_position
    assert config.model.max_model_len == config.cache.num_blocks * 32
    assert "the model was made for 32768" in why["max_model_len"]


@pytest.mark.parametrize(
    ("available_bytes", "asked", "message"),
    [
        (2 * GIB, {"max_model_len": 32768}, "one request of max_model_len=32768 needs 1.0 GiB. Lower it to "),
        (
            12 * GIB,
            {"kv_cache_memory_bytes": 20 * GIB},
            "kv_cache_memory_bytes: 20.0 GiB are asked for and 10.9 GiB are",
        ),
        (12 * GIB, {"kv_cache_memory_bytes": 2**20 - 1}, "one block of 32 tokens needs 1.0 MiB"),
        (
            12 * GIB,
            {"kv_cache_memory_bytes": 2**21, "max_model_len": 65},
            "max_model_len=65 does not fit kv_cache_memory_bytes=2097152, which holds 64 tokens",
        ),
    ],
)
def test_what_does_not_fit_is_refused_with_numbers(available_bytes: int, asked: dict[str, int], message: str):
    with pytest.raises(ConfigError) as caught:
        resolve_cache(available_bytes=available_bytes, **asked)
    assert message in str(caught.value)


def test_the_length_that_is_proposed_fits():
    with pytest.raises(ConfigError) as caught:
        resolve_cache(available_bytes=2 * GIB, max_model_len=32768)
    proposed = int(str(caught.value).partition("Lower it to ")[2].partition(",")[0])
    assert resolve_cache(available_bytes=2 * GIB, max_model_len=proposed)[0].model.max_model_len == proposed


def test_format_bytes():
    assert [format_bytes(n) for n in (0, 1023, 1024, 2**20, 3 * GIB)] == [
        "0 B",
        "1023 B",
        "1.0 KiB",
        "1.0 MiB",
        "3.0 GiB",
    ]
