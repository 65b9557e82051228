"""Golden files catch a change and are written on request only."""

import pytest
from tests.golden_file import Golden

pytestmark = pytest.mark.unit


def test_write_compare_and_differ(tmp_path):
    with pytest.raises(AssertionError, match="does not exist"):
        Golden(tmp_path).check("a/b.txt", "one\ntwo")
    Golden(tmp_path, is_updating=True).check("a/b.txt", "one\ntwo")
    Golden(tmp_path).check("a/b.txt", "one\ntwo")
    with pytest.raises(AssertionError, match=r"-two\n\+three"):
        Golden(tmp_path).check("a/b.txt", "one\nthree")
