"""The example in docs/how-to/pin-a-prefix.md runs and finds its prefix."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path

import pytest
from tests.server.engine_process import serving

from pelton.server.prefix_schema import PREFIX

pytestmark = pytest.mark.cpu  # real processes
TEXT = (Path(__file__).parents[2] / "docs" / "how-to" / "pin-a-prefix.md").read_text(encoding="utf-8")
URL, MODEL, SENTENCES = '"http://127.0.0.1:8000/v1"', 'model="demo"', " * 20}"


def test_the_example_runs_and_finds_its_prefix() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    assert all(code.count(word) == 1 for word in (URL, MODEL, SENTENCES))

    async def run() -> None:
        async with serving() as (_, _, http):
            # The model of the tests takes prompts of 200 bytes, and its template writes the last message only.
            short = code.replace(URL, f'"{http.base_url}/v1"').replace(MODEL, 'model="tiny"').replace(SENTENCES, "}")
            short = short.replace("[*messages, question]", "messages")
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-c", short, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
            )
            out, err = await asyncio.wait_for(process.communicate(), 30)
            assert process.returncode == 0, err.decode()
            prefix, found, released = out.decode().splitlines()
            assert "'name': 'store', 'tokens': 44, 'cached_tokens': 44" in prefix
            assert int(found.split()[0]) >= 40
            assert "'deleted': True" in released

    asyncio.run(asyncio.wait_for(run(), 60))


def test_fields_that_are_explained_exist() -> None:
    for name in ("name", "prompt", "messages", "tools", "chat_template_kwargs", "ttl", "cache_salt"):
        assert f"`{name}`" in TEXT
        assert name in PREFIX.about
