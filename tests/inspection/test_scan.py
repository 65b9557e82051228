import math
from pathlib import Path

import numpy as np
import pytest
from tests.inspection.models import ids, inspect, write

from pelton.checkpoint.checkpoint import open_checkpoint
from pelton.checkpoint.contract import TensorInfo
from pelton.checkpoint.weight import Tensor
from pelton.inspection import scan

pytestmark = pytest.mark.unit


def tensor(values: np.ndarray) -> Tensor:
    raw = np.ascontiguousarray(values, "<f4")
    return Tensor("x", raw.shape, "F32", raw.reshape(-1, raw.shape[-1]).view(np.uint8))


def test_the_numbers_of_a_tensor() -> None:
    values = np.random.default_rng(0).normal(size=(50, 8)).astype(np.float32)
    values[3, 2], values[40, 1], values[7] = np.nan, np.inf, 0.0
    done: list[int] = []
    whole = scan.measure(tensor(values), done.append)
    assert (whole.num_not_finite, whole.num_zero, sum(done)) == (2, 8, values.nbytes)
    finite = values[np.isfinite(values)]
    assert (whole.minimum, whole.maximum) == (finite.min(), finite.max())
    assert whole.mean == pytest.approx(finite.mean(dtype=np.float64))


def test_nothing_finite() -> None:
    numbers = scan.measure(tensor(np.full((2, 2), np.nan)))
    assert numbers.num_not_finite == 4
    assert math.isnan(numbers.minimum)
    assert math.isnan(numbers.mean)


def test_a_pass_finds_what_is_not_a_number_and_what_is_empty(tmp_path: Path) -> None:
    def damage(tensors: dict) -> None:  # type: ignore[type-arg]
        tensors["model.layers.0.mlp.up_proj.weight"][3, 3] = np.inf
        tensors["model.layers.1.mlp.down_proj.weight"][:] = 0.0

    with open_checkpoint(write(tmp_path, tensors=damage)) as checkpoint:
        numbers = scan.scan(checkpoint.tensors, checkpoint.read)
        findings = scan.check_numbers(numbers, dict(checkpoint.tensors))
    assert [finding.sentence for finding in findings] == [
        "1 numbers are not finite, in model.layers.0.mlp.up_proj.weight.",
        "model.layers.1.mlp.down_proj.weight holds zeros.",
    ]


def test_biases_may_be_zero_and_nothing_may_be_empty() -> None:
    zero = scan.measure(tensor(np.zeros((2, 2))))
    infos = {name: TensorInfo(name, (2, 2), "F32", 16) for name in ("a.bias", "a.weight")}
    (finding,) = scan.check_numbers(dict.fromkeys(infos, zero), infos)
    assert finding.sentence == "a.weight holds zeros."


@pytest.mark.parametrize("architecture", ["LlamaForCausalLM", "Gemma3ForCausalLM"])
@pytest.mark.parametrize(("added", "expected"), [(0.0, set()), (1.0, {"weights.norm-doubled"})])
def test_one_too_many(tmp_path: Path, architecture: str, added: float, expected: set[str]) -> None:
    def add(tensors: dict) -> None:  # type: ignore[type-arg]
        for name, array in tensors.items():
            if "norm" in name:
                tensors[name] = array + np.float32(added)

    report = inspect(write(tmp_path, architecture, tensors=add))
    assert {id_ for id_ in ids(report) if "norm" in id_} == expected


def test_one_too_few(tmp_path: Path) -> None:
    """Of weights that the family stores as the difference from one, one more was taken."""

    def take(tensors: dict) -> None:  # type: ignore[type-arg]
        for name, array in tensors.items():
            if "norm" in name:
                tensors[name] = np.clip(array, -0.9, None) - np.float32(1.0)

    assert "weights.norm-undone" in ids(inspect(write(tmp_path, "Gemma3ForCausalLM", tensors=take)))


def test_norms_that_are_not_finite(tmp_path: Path) -> None:
    def damage(tensors: dict) -> None:  # type: ignore[type-arg]
        tensors["model.norm.weight"][3] = np.nan

    assert "weights.not-finite" in ids(inspect(write(tmp_path, tensors=damage)))


def test_norms_of_zeros(tmp_path: Path) -> None:
    def clear(tensors: dict) -> None:  # type: ignore[type-arg]
        for name, array in tensors.items():
            if "norm" in name:
                array[:] = 0.0

    assert {id_ for id_ in ids(inspect(write(tmp_path, tensors=clear))) if "weights" in id_} == {"weights.all-zero"}


def test_norms_of_ones_are_what_training_begins_with(tmp_path: Path) -> None:
    def reset(tensors: dict) -> None:  # type: ignore[type-arg]
        for name, array in tensors.items():
            if "norm" in name:
                array[:] = 1.0

    assert not {id_ for id_ in ids(inspect(write(tmp_path, tensors=reset))) if "norm" in id_}
