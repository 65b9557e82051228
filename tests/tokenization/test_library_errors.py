"""What the library throws becomes one kind of error; everything else passes."""

import pytest
from tokenizers import Tokenizer, normalizers

from pelton.errors import CheckpointError
from pelton.tokenization.library_errors import blame

pytestmark = pytest.mark.unit


def test_bare_exceptions_name_the_file() -> None:
    with (
        pytest.raises(CheckpointError, match=r"tokenizer\.json: the tokenizer cannot be built: .*Model missing"),
        blame("tokenizer.json"),
    ):
        Tokenizer.from_str("{}")


def test_type_errors_are_about_the_data() -> None:
    with pytest.raises(CheckpointError, match="file: "), blame("file"):
        Tokenizer.from_str("\ud800")


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, CheckpointError])
def test_other_errors_pass(error: type[BaseException]) -> None:
    with pytest.raises(error, match="mine"), blame("file"):
        raise error("mine")


def test_damaged_table_of_characters_is_no_crash() -> None:
    with pytest.raises(CheckpointError, match="file: "), blame("file"):
        normalizers.Precompiled(b"\xff\xff\xff\xff\x00")


def test_what_is_quoted_of_the_file_is_cut_and_cannot_act() -> None:
    with pytest.raises(CheckpointError) as caught, blame("file"):
        raise Exception("\x1b[31m" + "x" * 1000)
    assert str(caught.value).isprintable()
    assert "\\x1b[31mxxx" in str(caught.value)
    assert len(str(caught.value)) < 400
