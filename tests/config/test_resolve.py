from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.config.facts import GIB, MACHINE, MODEL

from pelton.config.resolve import RULES, resolve
from pelton.config.schema import SETTINGS
from pelton.config.user_config import ask
from pelton.errors import ConfigError

pytestmark = pytest.mark.unit


def decide(**asked: Any):
    config, decisions = resolve(ask(model="demo", **asked), MODEL, MACHINE)
    return config, {d.field: d for d in decisions}


def test_everything_open_is_decided_with_a_reason():
    config, decisions = decide()
    assert set(decisions) == {s.name for s in SETTINGS.values() if s.is_auto}
    assert all(d.why for d in decisions.values())
    assert config.model.served_model_name == ("demo",)
    assert config.model.dtype == "float32"
    assert config.model.max_model_len == 32768
    assert config.runner.backend == "cpu"
    assert config.runner.num_threads == 4
    assert config.cache.block_size == 32
    assert config.scheduler.max_num_requests == 32
    assert config.scheduler.max_num_batched_tokens == 512
    assert config.scheduler.max_prefill_chunk == 128
    assert config.server.port == 8000


def test_what_is_asked_is_never_replaced():
    wanted = {
        "served_model_name": ("a",),
        "dtype": "float32",
        "wide_activations": "head",
        "max_model_len": 100,
        "block_size": 16,
        "kv_cache_memory_bytes": 64 * 2**20,
        "max_num_requests": 3,
        "max_num_batched_tokens": 20,
        "max_prefill_chunk": 7,
        "backend": "reference",
        "num_threads": 1,
        "kv_cache_dtype": "int8",
    }
    config, decisions = decide(**wanted)
    assert set(decisions) == {"num_blocks"}
    for name, value in wanted.items():
        assert getattr(getattr(config, SETTINGS[name].section), name) == value


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("demo", "demo"),
        ("org/Name-1B", "org/Name-1B"),
        ("/data/Name", "Name"),
        ("./Name/", "Name"),
        ("models/name.gguf", "name"),
        ("models/name-00002-of-00003.gguf", "name"),
        ("/data/v1.gguf.d", "v1.gguf.d"),
    ],
)
def test_served_name_from_the_model(model: str, name: str):
    config, _ = resolve(ask(model=model), MODEL, MACHINE)
    assert config.model.served_model_name == (name,)


@pytest.mark.parametrize(("hidden_size", "wide"), [(64, "all"), (767, "all"), (768, "likely"), (4096, "likely")])
def test_wide_activations_depend_on_the_width_of_the_model(hidden_size: int, wide: str):
    model = replace(MODEL, hidden_size=hidden_size)
    config, decisions = resolve(ask(), model, MACHINE)
    assert config.model.wide_activations == wide
    assert [d.value for d in decisions if d.field == "wide_activations"] == [wide]
    for asked in ("none", "likely", "head", "all"):
        config, decisions = resolve(ask(wide_activations=asked), model, MACHINE)
        assert config.model.wide_activations == asked
        assert "wide_activations" not in {d.field for d in decisions}


@pytest.mark.parametrize(
    ("asked", "dtype"),
    [({}, "bfloat16"), ({"exact": True}, "float32"), ({"backend": "reference"}, "float32")],
)
def test_keys_and_values_take_half_the_memory_unless_they_stay_as_they_are(asked: dict[str, object], dtype: str):
    config, decisions = decide(**asked)
    assert config.cache.kv_cache_dtype == dtype
    assert decisions["kv_cache_dtype"].value == dtype
    config, decisions = decide(**asked, kv_cache_dtype="int8")
    assert config.cache.kv_cache_dtype == "int8"
    assert "kv_cache_dtype" not in decisions


def test_more_cores_run_more_requests():
    config, _ = resolve(ask(), MODEL, replace(MACHINE, num_cores=8))
    assert config.scheduler.max_num_requests == 64
    assert config.runner.num_threads == 8


def test_budget_requests_and_chunk_fit_each_other():
    assert decide(max_num_batched_tokens=8)[0].scheduler.max_num_requests == 8
    assert decide(max_num_batched_tokens=8)[0].scheduler.max_prefill_chunk == 8
    assert decide(max_num_requests=1000)[0].scheduler.max_num_batched_tokens == 1000
    assert decide(max_prefill_chunk=2000)[0].scheduler.max_num_batched_tokens == 2000


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"num_threads": 9}, "num_threads=9: only 8 CPUs are available"),
        (
            {"max_num_requests": 8, "max_num_batched_tokens": 4},
            "max_num_batched_tokens=4 is less than max_num_requests=8",
        ),
        (
            {"max_prefill_chunk": 64, "max_num_batched_tokens": 32},
            "max_prefill_chunk=64 is more than max_num_batched_tokens=32",
        ),
        ({"max_model_len": 2**24}, "max_model_len=16777216: the model was made for 32768 tokens"),
        ({"dtype": "float64"}, "backend=cpu and dtype=float64 cannot be used together"),
    ],
)
def test_what_cannot_be_is_refused_by_name(asked: dict[str, Any], message: str):
    with pytest.raises(ConfigError) as caught:
        decide(**asked)
    assert message in str(caught.value)


def test_float64_on_the_reference_backend_is_fine():
    assert decide(dtype="float64", backend="reference")[0].model.dtype == "float64"


def test_a_rule_for_each_automatic_setting():
    assert {rule.__name__ for rule in RULES} == {s.name for s in SETTINGS.values() if s.is_auto} | {
        "weights_fit",
        "length_fits_model",
    }


@given(
    available=st.integers(0, 64 * GIB),
    kv_bytes=st.integers(1, 2**20),
    position=st.integers(1, 2**20),
    length=st.none() | st.integers(1, 2**20),
    requests=st.none() | st.integers(1, 512),
    tokens=st.none() | st.integers(1, 4096),
    pool=st.none() | st.integers(1, 64 * GIB),
)
def test_a_configuration_that_resolves_can_run(available, kv_bytes, position, length, requests, tokens, pool):
    asked = ask(
        max_model_len=length, max_num_requests=requests, max_num_batched_tokens=tokens, kv_cache_memory_bytes=pool
    )
    model = replace(MODEL, kv_bytes_per_token=kv_bytes, max_position=position)
    machine = replace(MACHINE, available_memory_bytes=available)
    try:
        config, _ = resolve(asked, model, machine)
    except ConfigError:
        return
    block = config.cache.block_size
    assert 1 <= config.model.max_model_len <= position
    assert config.cache.num_blocks * block >= config.model.max_model_len
    assert config.cache.num_blocks * block * kv_bytes <= config.cache.kv_cache_memory_bytes
    assert model.weight_bytes + config.cache.kv_cache_memory_bytes <= available
    assert config.scheduler.max_num_requests <= config.scheduler.max_num_batched_tokens
    assert config.scheduler.max_prefill_chunk <= config.scheduler.max_num_batched_tokens
    assert resolve(asked, model, machine)[0] == config
