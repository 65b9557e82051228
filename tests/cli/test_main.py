import subprocess
import sys
from typing import NoReturn

import click
import pytest
from click.testing import CliRunner
from tests.golden_file import Golden

from pelton import errors
from pelton.cli.main import COMMANDS, main, pelton, run_guarded

pytestmark = pytest.mark.unit

HEAVY = {
    "numpy",
    "tokenizers",
    "starlette",
    "uvicorn",
    "huggingface_hub",
    "jinja2",
    "rich",
    "yaml",
    "prometheus_client",
}


def raising(error: BaseException) -> NoReturn:
    raise error


def run_python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)


def test_help(golden: Golden):
    result = CliRunner().invoke(pelton, ["--help"], prog_name="pelton", terminal_width=100)
    assert result.exit_code == 0
    golden.check("help.txt", result.output.rstrip())


@pytest.mark.parametrize("args", [[], ["models"]])
def test_a_group_alone_shows_its_help(args: list[str], capsys: pytest.CaptureFixture[str]):
    assert main(args) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("Usage: pelton")
    assert "\nCommands:\n" in err


def test_help_imports_no_command_and_nothing_heavy():
    code = "import sys; from pelton.cli.main import main; code = main(['--help']); print('modules', *sys.modules)"
    modules = set(run_python(code).stdout.rpartition("modules ")[2].split())
    assert not {module.split(".")[0] for module in modules} & HEAVY
    assert {m for m in modules if m.startswith("pelton.cli.")} == {"pelton.cli.main", "pelton.cli.lazy_group"}


def test_import_of_the_package_imports_nothing_else():
    modules = run_python(
        "import sys, pelton; print(*(m for m in sys.modules if m.startswith('pelton')))"
    ).stdout.split()
    assert modules == ["pelton"]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_there(name: str):
    command = pelton.get_command(click.Context(pelton), name)
    assert command is not None
    assert command.help


@pytest.mark.parametrize(
    ("args", "line"),
    [
        (["serv"], "'serv' is not a command. Did you mean 'serve'?"),
        (["zzz"], "'zzz' is not a command. Known: bench, chat,"),
        (["--hlp"], "--hlp: not a known flag. Did you mean '--help'?"),
        (["doctor", "--jsn"], "--jsn: not a known flag. Did you mean '--json'?"),
        (["version", "extra"], "Got unexpected extra argument (extra). See pelton version --help."),
        (["models", "where"], "Missing argument 'NAME'. See pelton models where --help."),
    ],
)
def test_wrong_use_is_one_line_and_exit_code_2(args: list[str], line: str, capsys: pytest.CaptureFixture[str]):
    assert main(args) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"pelton: error: {line}")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    "error",
    [
        errors.ConfigError("a\nb"),
        errors.CapacityError("full"),
        errors.CheckpointError("damaged"),
        errors.BackendError("cannot"),
        errors.TransferError("lost"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_is_one_line_and_its_own_exit_code(error: errors.EngineError, capsys: pytest.CaptureFixture[str]):
    assert run_guarded(lambda: raising(error)) == error.exit_code
    assert capsys.readouterr().err == f"pelton: error: {' '.join(str(error).split())}\n"


def test_an_internal_error_asks_for_a_report(capsys: pytest.CaptureFixture[str]):
    assert run_guarded(lambda: raising(errors.InternalError("impossible."))) == 70
    assert capsys.readouterr().err == "pelton: error: impossible. Please report this.\n"


def test_a_bug_is_not_hidden():
    with pytest.raises(ZeroDivisionError):
        run_guarded(lambda: 1 / 0)


@pytest.mark.parametrize(("result", "code"), [(None, 0), (0, 0), (3, 3), ("text", 0)])
def test_what_a_command_returns_is_the_exit_code(result: object, code: int):
    assert run_guarded(lambda: result) == code


def test_interrupted(capsys: pytest.CaptureFixture[str]):
    assert run_guarded(lambda: raising(KeyboardInterrupt())) == 130
    assert run_guarded(lambda: raising(click.Abort())) == 130
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("command", ["click.echo('x' * 100000)", "print('x')"])
def test_a_reader_that_has_gone_is_met_with_silence(command: str):
    code = f"""
import os, sys, click
reader, writer = os.pipe()
os.close(reader)
os.dup2(writer, 1)
from pelton.cli import lazy_group, main
@main.pelton.command('talk')
def talk():
    {command}
main.COMMANDS['talk'] = lazy_group.Entry('__main__:talk', 'Talk.')
sys.exit(main.main(['talk']))
"""
    result = run_python(code)
    assert (result.returncode, result.stderr) == (141, "")


def test_version_flag(capsys: pytest.CaptureFixture[str]):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("pelton ")
