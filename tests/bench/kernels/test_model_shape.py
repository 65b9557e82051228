import pytest

from pelton.bench.kernels.model_shape import MODEL_SHAPES

pytestmark = pytest.mark.unit


def test_the_matrices_of_a_real_model():
    assert MODEL_SHAPES["qwen2.5-0.5b"].matrices == {
        "qkv": (1152, 896),
        "o": (896, 896),
        "gate_up": (9728, 896),
        "down": (896, 4864),
        "head": (151936, 896),
    }


@pytest.mark.parametrize("shape", MODEL_SHAPES.values(), ids=list(MODEL_SHAPES))
def test_heads_share_keys_evenly(shape):
    assert shape.num_heads % shape.num_kv_heads == 0
