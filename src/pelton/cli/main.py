"""The program `pelton`: finds the command, runs it, and turns every error into one line and an exit code.

Invariant: a command's module is imported only when that command runs, so `pelton --help` costs no more than click.
Exit codes: 0 done, 2 wrong use, the error class's own for what Pelton raises, 130 interrupted, 141 reader gone.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, Final

import click

from pelton import __version__
from pelton.cli.lazy_group import EXIT_BROKEN_PIPE, Entry, LazyGroup, silence_stdout
from pelton.errors import EngineError, InternalError, nearest

EXIT_INTERRUPTED: Final = 130

COMMANDS: Final[dict[str, Entry]] = {
    "serve": Entry("pelton.cli.serve:serve", "Serve a model over the OpenAI API."),
    "chat": Entry("pelton.cli.chat:chat", "Chat with a served model."),
    "complete": Entry("pelton.cli.complete:complete", "Complete text with a served model."),
    "run": Entry("pelton.cli.run:run", "Run prompts from a file, without a server."),
    "models": Entry("pelton.cli.models:models", "List, download and find models."),
    "inspect": Entry("pelton.cli.inspect:inspect", "Tell what a model is, and what is suspicious about it."),
    "config": Entry("pelton.cli.config:config", "Print every setting with its reason."),
    "doctor": Entry("pelton.cli.doctor:doctor", "Look at this machine, and at what a model would use of it."),
    "bench": Entry("pelton.cli.bench:bench", "Measure speed."),
    "eval": Entry("pelton.cli.evaluate:evaluate", "Measure fidelity to the reference."),
    "convert": Entry("pelton.cli.convert:convert_command", "Write a model in another format, with proof."),
    "quantize": Entry(
        "pelton.cli.quantize:quantize_command", "Write a model with weights in fewer bits, and the cost."
    ),
    "verify": Entry("pelton.cli.verify:verify_command", "Compare two models, and say whether they are the same."),
    "version": Entry("pelton.cli.version:version", "Print the version."),
}


@click.group(cls=LazyGroup, entries=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="pelton %(version)s")
def pelton() -> None:
    """Pelton, an LLM inference engine. `pelton serve MODEL` is where to start; MODEL can be 'demo'."""


def main(args: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code. Never raises what a user can cause."""
    return run_guarded(lambda: pelton.main(args=args, prog_name="pelton", standalone_mode=False))


def run_guarded(action: Callable[[], Any]) -> int:
    """The exit code of `action`: errors become one line on stderr."""
    try:
        result = action()
        sys.stdout.flush()
    except click.exceptions.Exit as error:
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        silence_stdout()
        return EXIT_BROKEN_PIPE
    except click.exceptions.NoArgsIsHelpError as error:  # `pelton` or `pelton models` alone: the help, as it is
        click.echo(error.format_message(), err=True)
        return error.exit_code
    except click.UsageError as error:
        return _report(describe_usage_error(error), 2)
    except click.ClickException as error:
        return _report(error.format_message(), error.exit_code)
    except EngineError as error:
        more = " Please report this." if isinstance(error, InternalError) else ""
        return _report(f"{error}{more}", error.exit_code)
    return result if isinstance(result, int) else 0


def describe_usage_error(error: click.UsageError) -> str:
    """One sentence or two on what is wrong with the command line, with the nearest flag where one is unknown."""
    if isinstance(error, click.NoSuchOption):
        known = [name for p in (error.ctx.command.params if error.ctx else []) for name in (*p.opts, *p.secondary_opts)]
        flags = [name for name in known if name.startswith("--")] + ["--help"]
        return f"{error.option_name}: not a known flag. {nearest(error.option_name, flags)}"
    command = error.ctx.command_path if error.ctx else "pelton"
    message = error.format_message().rstrip(".")
    return (
        error.format_message()
        if "Did you mean" in message or "Known:" in message
        else f"{message}. See {command} --help."
    )


def _report(message: str, exit_code: int) -> int:
    line = " ".join(message.split())
    print(f"pelton: error: {line}", file=sys.stderr)
    return exit_code
