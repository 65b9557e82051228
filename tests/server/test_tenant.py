"""Keys and whose they are."""

import asyncio
import hashlib
from pathlib import Path

import pytest
from tests.api.fakes import FakeEngineClient
from tests.server.http import in_memory, make_state

from pelton.config.schema import ServerConfig
from pelton.errors import ConfigError
from pelton.server.tenant import OPERATOR, load_keys

pytestmark = pytest.mark.unit


def write(tmp_path: Path, text: str) -> str:
    path = tmp_path / "keys"
    path.write_text(text)
    return str(path)


def test_names_of_keys(tmp_path: Path) -> None:
    digest = hashlib.sha256(b"two").hexdigest()
    path = write(tmp_path, f"# people\n\nann: one\nbob: sha256:{digest}\nann: three:with colon\n")
    keys = load_keys(ServerConfig(api_key="root", api_keys_file=path))
    assert [keys.find(key) for key in (b"one", b"two", b"three:with colon", b"root")] == ["ann", "bob", "ann", OPERATOR]
    assert [keys.find(key) for key in (b"", b"on", b"one ", digest.encode())] == [None] * 4
    assert (bool(keys), keys.num_tenants) == (True, 3)
    none = load_keys(ServerConfig())
    assert (bool(none), none.num_tenants, none.find(b"")) == (False, 1, None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ann one\n", "line 1 is not of the form"),
        ("ok: k\nan n: secret\n", "line 2 is not of the form"),
        ("ann:\n", "line 1 is not of the form"),
        ("ann: k\nbob: k\n", "line 2 repeats the key of 'ann'"),
        ("# nobody\n", "has no key in it"),
    ],
)
def test_files_that_make_no_sense(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        load_keys(ServerConfig(api_keys_file=write(tmp_path, text)))
    assert "secret" not in str(caught.value)


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(ConfigError, match=r"^--api-keys-file: /nowhere cannot be read \(No such file"):
        load_keys(ServerConfig(api_keys_file="/nowhere"))


def test_the_engine_is_told_whose_request_it_is_and_nobody_sees_keys(tmp_path: Path) -> None:
    client = FakeEngineClient()
    state = make_state(client, api_keys_file=write(tmp_path, "ann: k1\nbob: k2\n"))

    async def run() -> None:
        async with in_memory(state) as http:
            for key in ("k1", "k2", "k3"):
                await http.post("/v1/completions", json={"prompt": "a"}, headers={"authorization": f"Bearer {key}"})
            shown = await http.get("/config", headers={"authorization": "Bearer k1"})
            assert "k2" not in shown.text

    asyncio.run(run())
    assert [request.tenant for request in client.requests] == ["ann", "bob"]
