"""The limit grows with the model, the step and the slowness of the machine, and has a floor."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pelton.api.stall import SHORTEST_TIMEOUT_S, compute_stall_timeout_s
from pelton.checkpoint.model_spec import LayerSpec, ModelSpec
from pelton.config.schema import EngineConfig

pytestmark = pytest.mark.unit

SPEC = ModelSpec(
    architecture="llama",
    vocab_size=1000,
    hidden_size=4096,
    intermediate_size=11008,
    num_heads=32,
    num_kv_heads=32,
    head_dim=128,
    max_position=4096,
    layers=(LayerSpec(rope=None),) * 32,
    norm_eps=1e-5,
    attention_scale=1.0,
)


def config(backend: str = "cpu", tokens: int = 512) -> EngineConfig:
    default = EngineConfig()
    return replace(
        default,
        model=replace(default.model, max_model_len=4096),
        scheduler=replace(default.scheduler, max_num_batched_tokens=tokens),
        runner=replace(default.runner, backend=backend),
    )


def test_a_small_model_has_the_floor() -> None:
    assert compute_stall_timeout_s(SPEC, 1000, config(tokens=16), "avx512") == SHORTEST_TIMEOUT_S


def test_a_large_model_may_take_longer() -> None:
    # 7 G weights, 512 tokens: 7.2e12 operations for weights and 1.1e12 for attention, at 2e10 a second.
    assert compute_stall_timeout_s(SPEC, 7 * 10**9, config(), "avx2") == pytest.approx(413, rel=0.01)


def test_slow_kernels_and_large_steps_take_longer() -> None:
    fast = compute_stall_timeout_s(SPEC, 7 * 10**9, config(), "avx512")
    assert compute_stall_timeout_s(SPEC, 7 * 10**9, config(), "generic") == pytest.approx(20 * fast)
    assert compute_stall_timeout_s(SPEC, 7 * 10**9, config("reference"), "avx512") == pytest.approx(20 * fast)
    assert compute_stall_timeout_s(SPEC, 7 * 10**9, config(tokens=1024), "avx512") == pytest.approx(2 * fast)
