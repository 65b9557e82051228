import pytest

from pelton import errors

pytestmark = pytest.mark.unit

CLASSES = [c for c in vars(errors).values() if isinstance(c, type) and issubclass(c, errors.EngineError)]


@pytest.mark.parametrize("error", CLASSES)
def test_the_drawing_says_what_the_class_says(error: type[errors.EngineError]):
    lines = {line.split()[0]: line for line in (errors.__doc__ or "").splitlines() if line.startswith("  ")}
    line = lines[error.__name__]
    assert str(error.http_status) in line
    parent = next(base for base in error.__mro__[1:])
    if parent not in (Exception, errors.RequestError, errors.CapacityError):
        assert f"exit {error.exit_code}" in line
    else:
        assert error.exit_code == getattr(parent, "exit_code", error.exit_code)


def test_a_request_error_can_name_the_field():
    error = errors.TooLong("too long", param="prompt", code="context_length_exceeded")
    assert (str(error), error.param, error.code) == ("too long", "prompt", "context_length_exceeded")
    assert (errors.UnknownModel("x").param, errors.UnknownModel("x").code) == (None, None)


def test_a_capacity_error_says_when_to_come_back():
    assert errors.RateLimited("share used up", retry_after_s=7).retry_after_s == 7
    assert errors.CapacityError("full").retry_after_s > 0


def test_an_internal_error_carries_what_a_report_needs():
    error = errors.InternalError("impossible", request_id="r", step=3)
    assert (error.request_id, error.step) == ("r", 3)


def test_nearest():
    assert errors.nearest("prot", ["port", "host"]) == "Did you mean 'port'?"
    assert errors.nearest("zzz", ["b", "a"]) == "Known: a, b."
