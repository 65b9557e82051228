import pytest

from pelton.observability import bucket

pytestmark = pytest.mark.unit


def test_geometric_stops_at_the_last():
    assert bucket.geometric(0.01, 0.3, 1, 2.5, 5) == (0.01, 0.025, 0.05, 0.1, 0.25)


@pytest.mark.parametrize("name", ["FIRST_TOKEN_S", "TOKEN_S", "REQUEST_S", "TOKENS", "CHOICES"])
def test_borders_rise(name: str):
    borders = getattr(bucket, name)
    assert list(borders) == sorted(set(borders))
    assert borders[0] > 0


def test_the_range_covers_what_is_seen():
    assert (bucket.FIRST_TOKEN_S[0], bucket.FIRST_TOKEN_S[-1]) == (0.001, 2500)
    assert bucket.TOKEN_S[-1] == 100
