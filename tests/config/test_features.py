import pytest

from pelton.config.features import EXCLUDED_PAIRS, check_features, get_features
from pelton.config.schema import EngineConfig, ModelConfig, RunnerConfig
from pelton.errors import ConfigError

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("pair", EXCLUDED_PAIRS)
def test_every_pair_of_the_table_is_refused_with_its_reason(pair: frozenset[str]):
    assert len(pair) == 2
    with pytest.raises(ConfigError, match=EXCLUDED_PAIRS[pair]):
        check_features(pair | {"something else"})
    for one in pair:
        check_features({one})


def test_features_of_a_configuration():
    config = EngineConfig(model=ModelConfig(dtype="float32", exact=True), runner=RunnerConfig(backend="reference"))
    assert get_features(config) == {"backend=reference", "dtype=float32", "exact"}
