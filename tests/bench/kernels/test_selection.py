import pytest

from pelton.backends.cpu import get_isa
from pelton.bench.kernels.selection import (
    MATRICES,
    OPS,
    USUAL_ROWS,
    USUAL_SCHEMES,
    list_available_isas,
    parse_selection,
)
from pelton.checkpoint.scheme import USABLE
from pelton.errors import ConfigError

pytestmark = pytest.mark.cpu


def test_nothing_chosen_is_all_ops_with_usual_sizes_on_the_instruction_set_in_use():
    found = parse_selection([])
    assert (found.ops, found.schemes, found.matrices, found.rows) == (OPS, USUAL_SCHEMES, MATRICES, USUAL_ROWS)
    assert found.isas == (get_isa(),)


def test_words_choose():
    found = parse_selection(
        ["op=linear,rotary", "scheme=all", "rows=2,7", "context=64", "isa=all", "shape=gemma-3-270m"]
    )
    assert found.ops == ("linear", "rotary")
    assert set(found.schemes) == USABLE
    assert (found.rows, found.contexts, found.shape) == ((2, 7), (64,), "gemma-3-270m")
    assert found.isas == list_available_isas()
    assert get_isa() in found.isas


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("linear", "'linear': give KEY=VALUE with a known key."),
        ("opp=linear", "'opp=linear': give KEY=VALUE with a known key. Did you mean 'op'?"),
        ("op=liner", "'op=liner': 'liner' cannot be chosen here. Did you mean 'linear'?"),
        ("op=", "'op=': '' cannot be chosen here. Known:"),
        ("rows=0", "'rows=0': '0' is not a list of positive numbers like 1,8,32."),
        ("rows=1,x", "'rows=1,x': '1,x' is not a list of positive numbers"),
        ("shape=all", "'shape=all': one shape at a time can be measured. Give one of qwen2.5-0.5b,"),
    ],
)
def test_a_wrong_word_is_named(word: str, message: str):
    with pytest.raises(ConfigError) as error:
        parse_selection([word])
    assert str(error.value).startswith(message)
