"""The choice of an instruction set."""

import subprocess
import sys
from collections.abc import Iterator

import pytest

from pelton.backends.cpu import get_detected_isa, get_isa, set_isa
from pelton.errors import BackendError

pytestmark = pytest.mark.cpu


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    before = get_isa()
    yield
    set_isa(before)


def test_the_best_is_the_default():
    code = "from pelton.backends.cpu import get_isa; print(get_isa())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == get_detected_isa()


def test_a_lower_one_can_be_asked_for():
    set_isa("generic")
    assert get_isa() == "generic"


def test_an_unknown_one_is_refused_with_the_known_ones():
    with pytest.raises(BackendError, match=r"'sse9'.*generic, avx2, avx512"):
        set_isa("sse9")
