"""Published answers, and the shape of the noise."""

import numpy as np
import pytest

from pelton.backends.reference.philox import philox4x32, uniform

pytestmark = pytest.mark.unit

# kat_vectors of Random123: counter, key, answer.
PUBLISHED = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@pytest.mark.parametrize(("counter", "key", "answer"), PUBLISHED)
def test_known_answers(counter, key, answer):
    assert philox4x32(counter, key) == answer


def test_uniform_uses_both_halves_of_seed_and_position():
    assert len({uniform(s, p) for s in (0, 1, 1 << 32) for p in (0, 1, 1 << 32)}) == 9


def test_uniform_is_uniform():
    numbers = np.array([uniform(42, position) for position in range(20_000)])
    assert numbers.min() >= 0
    assert numbers.max() < 1
    counts, _ = np.histogram(numbers, bins=64, range=(0, 1))
    chi_square = ((counts - 312.5) ** 2 / 312.5).sum()
    assert chi_square < 113.5  # the 0.9999 quantile for 63 degrees of freedom


def test_neighbouring_seeds_and_positions_are_independent():
    grid = np.array([[uniform(seed, position) for position in range(200)] for seed in range(50)]) - 0.5
    for a, b in ((grid[:, 1:], grid[:, :-1]), (grid[1:], grid[:-1])):
        correlation = (a * b).mean() / grid.var()
        assert abs(correlation) < 4 / np.sqrt(a.size)
