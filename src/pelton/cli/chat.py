"""`pelton chat`: a conversation with a served model, at a terminal or over a pipe."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import click

from pelton.cli.client_options import ClientOptions, client_options, is_interactive, write
from pelton.errors import EngineError

HELP = "/quit ends, /reset forgets the conversation, /system TEXT sets instructions, Ctrl-C stops an answer."


@click.command()
@client_options
@click.option("-q", "--quick", default=None, metavar="TEXT", help="Send one message, print the answer, end.")
@click.option("--system-prompt", default=None, help="Instructions that come before the conversation.")
def chat(options: ClientOptions, quick: str | None, system_prompt: str | None) -> None:
    """Chat with a served model. Over a pipe, every line is a message."""
    conversation = Conversation(options, system_prompt)
    if quick is not None:
        conversation.ask(quick)
        return
    if is_interactive():
        click.echo(f"{options.model} at your service. {HELP}", err=True)
    for line in read_lines("> "):
        conversation.take(line)
        if conversation.is_over:
            return


def read_lines(prompt: str) -> Iterator[str]:
    """Lines from stdin, with a prompt if a person types. Ends at end of file and on Ctrl-C."""
    if not is_interactive():
        yield from (line.rstrip("\n") for line in sys.stdin)
        return
    while True:
        try:
            yield input(prompt)
        except (EOFError, KeyboardInterrupt):
            click.echo(err=True)
            return


class Conversation:
    """The messages so far. An answer that fails or is stopped leaves no trace in them."""

    def __init__(self, options: ClientOptions, system_prompt: str | None) -> None:
        self.is_over = False
        self._options = options
        self._system = system_prompt
        self._messages: list[dict[str, str]] = []

    def take(self, line: str) -> None:
        """Do what a line says: a command, or a message to answer."""
        command, _, rest = line.strip().partition(" ")
        if command in ("/quit", "/exit"):
            self.is_over = True
        elif command == "/reset":
            self._messages.clear()
        elif command == "/system":
            self._system = rest or None
            self._messages.clear()
        elif command.startswith("/") and command[1:].isalpha():
            click.echo(HELP, err=True)
        elif line.strip():
            self._ask_guarded(line)

    def _ask_guarded(self, text: str) -> None:
        if not is_interactive():
            self.ask(text)
            return
        try:
            self.ask(text)
        except KeyboardInterrupt:
            write("\n")
        except EngineError as error:  # a person can read it and go on
            click.echo(f"\nerror: {error}", err=True)

    def ask(self, text: str) -> None:
        """Send a message, show the answer as it comes, and remember both."""
        system = [{"role": "system", "content": self._system}] if self._system else []
        messages = [*self._messages, {"role": "user", "content": text}]
        body = {"model": self._options.model, "messages": [*system, *messages], **self._options.fields}
        answer = "".join(show(self._options.client.stream("/v1/chat/completions", body), get_chat_text))
        write("\n")
        self._messages = [*messages, {"role": "assistant", "content": answer}]


def get_chat_text(choice: dict[str, Any]) -> str:
    """The text of a chunk's choice."""
    return choice.get("delta", {}).get("content") or ""


def show(chunks: Iterator[dict[str, Any]], get_text: Any) -> Iterator[str]:
    """Write the text of each chunk as it comes, and yield it."""
    for chunk in chunks:
        for choice in chunk.get("choices", ()):
            text = get_text(choice)
            write(text)
            yield text
