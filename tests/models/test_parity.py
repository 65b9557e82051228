"""Every architecture gives the logits that transformers gives, whole and in chunks, on every backend."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.models.architectures import CASES, make_model

from pelton.backends.cpu import CpuBackend
from pelton.backends.executable import Backend, Executable, Limits
from pelton.backends.reference import ReferenceBackend
from pelton.checkpoint.checkpoint import open_checkpoint
from pelton.loading import load_model
from pelton.runner.direct_step import logits_of
from pelton.runner.kv_pool import KvPool

PROMPT = [int(x) for x in np.random.default_rng(7).integers(3, 97, 45)]  # longer than any window
LIMITS = Limits(
    max_num_batched_tokens=64,
    max_num_requests=4,
    max_num_logits_rows=64,
    block_size=32,
    max_blocks_per_request=2,
    num_threads=1,
    exact=True,
)

pytestmark = pytest.mark.cpu


def load(path: Path, backend: Backend, limits: Limits = LIMITS) -> Executable:
    executable = load_model(open_checkpoint(path), backend, limits, max_model_len=len(PROMPT)).executable
    executable.bind_kv(KvPool(4, executable.kv_bytes_per_block).memory, 4)
    return executable


def expected_logits(model: torch.nn.Module) -> np.ndarray:
    with torch.no_grad():
        return model(torch.tensor([PROMPT])).logits[0].numpy()


@pytest.mark.parametrize("name", CASES)
def test_reference_backend_agrees_with_transformers(name: str, tmp_path: Path) -> None:
    expected_TV = expected_logits(make_model(name, tmp_path))
    executable = load(tmp_path, ReferenceBackend("float32"))
    actual_TV = logits_of(executable, PROMPT, [2, 1], chunk=64, max_blocks=2)
    spread = float(expected_TV.std())
    np.testing.assert_allclose(actual_TV, expected_TV, rtol=0, atol=2e-4 * spread)
    # In chunks the same cache is read back: nothing but rounding may change.
    chunked_TV = logits_of(executable, PROMPT, [0, 3], chunk=7, max_blocks=2)
    np.testing.assert_allclose(chunked_TV, actual_TV, rtol=0, atol=2e-5 * spread)


@pytest.mark.parametrize("name", CASES)
def test_native_backend_in_exact_mode_agrees_with_transformers(name: str, tmp_path: Path) -> None:
    expected_TV = expected_logits(make_model(name, tmp_path))
    executable = load(tmp_path, CpuBackend())
    actual_TV = logits_of(executable, PROMPT, [2, 1], chunk=64, max_blocks=2)
    np.testing.assert_allclose(actual_TV, expected_TV, rtol=0, atol=2e-4 * float(expected_TV.std()))
    chunked_TV = logits_of(executable, PROMPT, [0, 3], chunk=7, max_blocks=2)
    np.testing.assert_array_equal(chunked_TV, actual_TV)  # bitwise: sums do not depend on the chunk


@pytest.mark.parametrize("name", CASES)
def test_native_backend_by_default_stays_close_to_transformers(name: str, tmp_path: Path) -> None:
    """Keys and values are kept in bfloat16, and with it products: the mean error stays below 6 % of the spread.

    Weights of standard deviation 0.2 make scores tens of times larger than a trained model's, and rounding with them;
    `pelton eval fidelity` says what the default costs on a real model.
    """
    expected_TV = expected_logits(make_model(name, tmp_path, torch.bfloat16))
    executable = load(tmp_path, CpuBackend(), replace(LIMITS, exact=False, num_threads=2))
    actual_TV = logits_of(executable, PROMPT, [2, 1], chunk=64, max_blocks=2)
    assert np.abs(actual_TV - expected_TV).mean() < 0.06 * float(expected_TV.std())
    chunked_TV = logits_of(executable, PROMPT, [0, 3], chunk=7, max_blocks=2)
    np.testing.assert_array_equal(chunked_TV, actual_TV)
