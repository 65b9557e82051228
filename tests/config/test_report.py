import json

import pytest
from tests.config.facts import MACHINE, MODEL

from pelton.config.report import make_json, make_rows
from pelton.config.resolve import resolve
from pelton.config.schema import SECTIONS, SETTINGS
from pelton.config.user_config import ask

pytestmark = pytest.mark.unit

ASKED = ask(model="demo", port=80, api_key="do-not-tell")
CONFIG, DECISIONS = resolve(ASKED, MODEL, MACHINE)


def test_every_setting_has_a_row_with_its_source():
    rows = {row.field: row for row in make_rows(CONFIG, ASKED, DECISIONS)}
    assert list(rows) == list(SETTINGS)
    assert (rows["port"].source, rows["port"].why) == ("asked", "port")
    assert (rows["host"].source, rows["host"].why) == ("default", "")
    assert rows["num_threads"].source == "decided"
    assert rows["num_threads"].value == 4
    assert "4 physical cores" in rows["num_threads"].why


def test_a_secret_is_not_told():
    text = json.dumps(make_json(CONFIG, ASKED, DECISIONS))
    assert "do-not-tell" not in text
    assert json.loads(text)["server"]["api_key"]["value"] == "(set)"
    without, decisions = resolve(ask(), MODEL, MACHINE)
    assert make_json(without, ask(), decisions)["server"]["api_key"]["value"] is None


def test_json_has_the_sections_of_the_schema():
    assert list(make_json(CONFIG, ASKED, DECISIONS)) == list(SECTIONS)
