"""Gives a command the settings of the schema as flags, and hands it what was asked as one UserConfig.

Invariant: the command line wins over the environment, which wins over the file of --config. A command never sees single
flags of the schema.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import click

from pelton.config.env import get_environment
from pelton.config.file import load_config_file
from pelton.config.flags import ask_flags, make_options
from pelton.config.schema import SETTINGS
from pelton.config.user_config import UserConfig, ask_environment
from pelton.errors import ConfigError

Command = Callable[..., Any]


def config_options(*sections: str, model: bool = True, without: Collection[str] = ()) -> Callable[[Command], Command]:
    """Decorate a click command: adds MODEL, --config and the flags of `sections`; it receives `asked: UserConfig`.

    Settings named in `without` get no flag: the command makes no use of them.

    @click.command()
    @config_options("model", "cache", "scheduler", "runner", "server", "log")
    def serve(asked: UserConfig) -> None: ...

    The decorator stands below @click.command. Other options of the command stay as they are.
    """
    options = [option for option in make_options(sections) if option.name not in without]
    names = {str(option.name) for option in options} | ({"model"} if model else set())

    def decorate(function: Command) -> Command:
        @functools.wraps(function)
        def command(**values: Any) -> Any:
            config_file = values.pop("config_file")
            flags = {name: values.pop(name) for name in names}
            return function(asked=gather(flags, config_file), **values)

        parameters: list[click.Parameter] = [click.Argument(["model"], required=False)] if model else []
        parameters.append(
            click.Option(
                ["config_file", "--config"], type=click.Path(path_type=Path), help="Read settings from a YAML file."
            )
        )
        own = getattr(function, "__click_params__", [])
        # click keeps parameters in reverse, as a stack of decorators would leave them.
        command.__click_params__ = [*own, *reversed([*parameters, *options])]  # type: ignore[attr-defined]
        return command

    return decorate


def gather(flags: dict[str, Any], config_file: Path | None) -> UserConfig:
    """What the command line, the environment and the configuration file ask for, the strongest first."""
    environment = get_environment()
    asked = ask_flags(flags).over(ask_environment(environment))
    path = config_file or environment.config_file
    return asked.over(load_config_file(path)) if path else asked


def get_model(asked: UserConfig) -> str:
    """The model that was asked for; ConfigError if there is none."""
    if "model" not in asked:
        known = SETTINGS["model"].knob.help[:-1]
        raise ConfigError(f"MODEL is missing. Give one: {known[0].lower()}{known[1:]}.")
    return str(asked.get("model"))
