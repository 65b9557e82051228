"""What the server makes of an engine's end."""

import pytest

from pelton.engine.child import ERRORS, describe_exit
from pelton.errors import EngineError

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("return_code", "expected"), [(0, "exit code 0"), (70, "exit code 70"), (-11, "killed by SIGSEGV")]
)
def test_exit_is_described(return_code: int, expected: str) -> None:
    assert describe_exit(return_code) == expected


def test_kill_hints_at_memory() -> None:
    assert "runs out of memory" in describe_exit(-9)


def test_every_error_that_an_engine_may_name_can_be_made_from_its_sentence() -> None:
    def get_subclasses(error: type[EngineError]) -> set[type[EngineError]]:
        return {error}.union(*(get_subclasses(child) for child in error.__subclasses__()))

    for error in ERRORS.values():
        assert str(error("a sentence")) == "a sentence"
    assert set(ERRORS.values()) <= get_subclasses(EngineError)
