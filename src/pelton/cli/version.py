"""`pelton version`: what is installed."""

from __future__ import annotations

import platform

import click

from pelton import __version__


@click.command()
def version() -> None:
    """Print the version of Pelton and of Python."""
    click.echo(f"pelton {__version__} (Python {platform.python_version()}, {platform.system()} {platform.machine()})")
