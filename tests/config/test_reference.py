from pathlib import Path

import pytest

from pelton.config.reference import render_configuration
from pelton.config.schema import SETTINGS

pytestmark = pytest.mark.unit

PAGE = Path(__file__).parents[2] / "docs/reference/configuration.md"


def test_the_page_is_what_the_schema_says():
    assert PAGE.read_text(encoding="utf-8") == render_configuration(), "run 'make docs'"


def test_every_setting_is_on_it():
    page = render_configuration()
    hidden = {s.flag for s in SETTINGS.values() if s.knob.is_derived or s.knob.is_hidden}
    assert [s.flag for s in SETTINGS.values() if s.flag not in hidden and f"`{s.flag}`" not in page] == []
    assert not any(f"`{flag}`" in page for flag in hidden)
