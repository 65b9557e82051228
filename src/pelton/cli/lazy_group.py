"""A group of commands that live in modules of their own, each imported only when it runs.

Invariant: the help of a group comes from its table alone and costs no more than click.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any, Final, NamedTuple

import click

from pelton.errors import nearest

EXIT_BROKEN_PIPE: Final = 141


class Entry(NamedTuple):
    """A command: where it lives, and the line of it in --help, which must not need its module."""

    target: str  # module:attribute
    help: str


class LazyGroup(click.Group):
    """A group whose commands are imported when they are needed."""

    def __init__(self, *args: Any, entries: dict[str, Entry], **more: Any) -> None:
        super().__init__(*args, **more)
        self._entries = entries

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All names, in the order of the table."""
        return list(self._entries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command itself; imports its module."""
        if cmd_name not in self._entries:
            return None
        module_name, _, attribute = self._entries[cmd_name].target.partition(":")
        command = getattr(importlib.import_module(module_name), attribute)
        assert isinstance(command, click.Command), f"{cmd_name} is not a click command"
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command to run, or a UsageError with the nearest name."""
        if args[0] not in self._entries and not args[0].startswith("-"):
            raise click.UsageError(f"{args[0]!r} is not a command. {nearest(args[0], self._entries)}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command. A reader that has gone is no error of ours, and not one for click to report."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            silence_stdout()
            raise click.exceptions.Exit(EXIT_BROKEN_PIPE) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list in --help, made from the table alone."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.help) for name, entry in self._entries.items()])


def silence_stdout() -> None:
    """Send nowhere what is still written to stdout: Python flushes at exit and would complain once more."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
