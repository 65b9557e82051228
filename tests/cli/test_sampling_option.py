import pytest

from pelton.cli.main import main

pytestmark = pytest.mark.unit

COMMANDS = (
    ["run", "no-such-model", "-i", "none.txt", "-o", "none.jsonl"],
    ["chat", "-q", "x"],
    ["complete", "-q", "x"],
)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("flag", "value", "allowed"),
    [
        ("--temperature", "nan", "0<=x<=2"),
        ("--temperature", "-0.1", "0<=x<=2"),
        ("--temperature", "inf", "0<=x<=2"),
        ("--max-tokens", "0", "x>=1"),
    ],
)
def test_what_the_api_refuses_is_refused_at_once(
    command: list[str], flag: str, value: str, allowed: str, capsys: pytest.CaptureFixture[str]
):
    """Nothing answers, and there is no such model or file: those would be the next errors."""
    assert main([*command, flag, value]) == 2
    err = capsys.readouterr().err
    assert f"'{flag}': {value} is not in the range {allowed}" in err
    assert err.count("\n") == 1
