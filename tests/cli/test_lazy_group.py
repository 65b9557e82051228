import click
import pytest
from click.testing import CliRunner

from pelton.cli.lazy_group import Entry, LazyGroup

pytestmark = pytest.mark.unit


def test_a_group_finds_its_commands_lazily():
    group = LazyGroup("g", entries={"gone": Entry("pelton.cli.nowhere:x", "Not there.")})
    assert group.list_commands(click.Context(group)) == ["gone"]
    assert "Not there." in CliRunner().invoke(group, ["--help"]).output
    with pytest.raises(ModuleNotFoundError):
        group.get_command(click.Context(group), "gone")
