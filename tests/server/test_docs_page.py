"""The documents name every field, and load nothing from outside."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import pytest
from tests.golden_file import Golden
from tests.server.http import in_memory, make_state

from pelton.server.app import DOCS_ROUTES, ROUTES
from pelton.server.docs_page import make_openapi, make_page

pytestmark = pytest.mark.unit
SCHEMAS = [row.schema for row in ROUTES if row.schema is not None]


@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda s: s.works.__name__)
def test_every_working_field_is_described_once(schema: Any) -> None:
    assert set(schema.about) == set(schema.works.__struct_fields__)
    assert not set(schema.about) & (set(schema.without_effect) | set(schema.refused))
    assert not set(schema.without_effect) & set(schema.refused)


def test_openapi_refers_only_to_what_it_has() -> None:
    document = make_openapi(ROUTES)
    references = set(re.findall(r"#/components/schemas/(\w+)", str(document)))
    assert references <= set(document["components"]["schemas"])
    chat = document["components"]["schemas"]["ChatRequest"]
    assert chat["required"] == ["messages"]
    assert "temperature" in chat["properties"]
    assert chat["properties"]["user"]["description"].startswith("Without effect")


def test_the_page_is_self_contained_and_complete() -> None:
    page = make_page(ROUTES, "<model>")
    assert "&lt;model&gt;" in page
    assert not re.search(r'(src|href)="(https?:)?//', page)
    for schema in SCHEMAS:
        for name in schema.known:
            assert f"<code>{name}</code>" in page


def test_the_documents_can_be_turned_off() -> None:
    async def run(**settings: Any) -> list[int]:
        async with in_memory(make_state(**settings)) as http:
            return [(await http.get(path)).status_code for path in ("/docs", "/openapi.json")]

    assert asyncio.run(run()) == [200, 200]
    assert asyncio.run(run(docs_page=False)) == [404, 404]


def test_the_interface_changes_on_purpose_only(golden: Golden) -> None:
    document = make_openapi((*ROUTES, *DOCS_ROUTES))
    document["info"]["version"] = "any"
    golden.check("openapi.json", json.dumps(document, indent=1, sort_keys=True))
