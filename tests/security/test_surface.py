"""What can be reached at all: one port, the routes of the table, and no field that is handed on unread."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.end_to_end.served import Served, serve
from tests.http_adversary.storm import FLAGS
from tests.server.http import call

from pelton.server.app import ROUTES

GRAMMARS: list[Any] = [
    "(unclosed[", "(a+)+$", ".{1,5000}" * 20, "", {}, {"type": "stsring"}, {"$ref": "#"}, {"enum": ["a"] * 70_000},
    "(" * 30_000 + ")" * 30_000, 'rout::="x"',
]  # fmt: skip
FIELDS = ("response_format", "guided_json", "guided_regex", "guided_grammar", "guided_choice", "structured_outputs")


def find_listening_ports(pids: list[int]) -> set[int]:
    """The TCP ports on which these processes listen."""
    inodes = set()
    for pid in pids:
        for link in Path(f"/proc/{pid}/fd").iterdir():
            target = str(link.readlink())
            if target.startswith("socket:["):
                inodes.add(target[len("socket:[") : -1])
    ports = set()
    for table in ("tcp", "tcp6", "udp", "udp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            _, local, _, state, *rest = line.split()
            if rest[5] in inodes and (state == "0A" or table.startswith("udp")):
                ports.add(int(local.rpartition(":")[2], 16))
    return ports


def find_children(pid: int) -> list[int]:
    """The child processes, whichever thread started them."""
    return [int(pid) for task in Path(f"/proc/{pid}/task").iterdir() for pid in (task / "children").read_text().split()]


@pytest.fixture(scope="module")
def served() -> Any:
    with serve("oracle", *FLAGS) as running:
        yield running


@pytest.mark.cpu
def test_one_port_is_open_and_the_engine_has_none(served: Served) -> None:
    message = {"messages": [{"role": "user", "content": "a"}], "max_tokens": 1}
    assert httpx.post(f"{served.url}/v1/chat/completions", json=message, timeout=20).status_code == 200
    children = find_children(served.process.pid)
    assert len(children) >= 2, "an engine and a template process"
    assert find_listening_ports([served.process.pid, *children]) == {int(served.url.rpartition(":")[2])}
    assert find_listening_ports(children) == set()


@pytest.mark.unit
def test_no_route_loads_or_administers_anything() -> None:
    words = ("load", "unload", "lora", "weights", "update", "admin", "shutdown", "profile", "file", "upload", "reset")
    assert not [row.path for row in ROUTES if any(word in row.path for word in words)]
    assert {row.method for row in ROUTES} <= {"GET", "POST", "DELETE"}


@pytest.mark.cpu
@pytest.mark.parametrize("field", FIELDS)
def test_grammars_are_refused_before_anything_reads_them(served: Served, field: str) -> None:
    with httpx.Client(base_url=served.url, timeout=20) as http:
        for grammar in GRAMMARS[:-1] if field == "structured_outputs" else GRAMMARS:
            started_s = time.monotonic()
            answer = http.post("/v1/completions", json={"prompt": "a", field: grammar})
            if field == "structured_outputs" and grammar == {}:
                continue
            assert (answer.status_code, answer.json()["error"]["param"]) == (400, field)
            assert time.monotonic() - started_s < 1


@pytest.mark.unit
def test_templates_of_clients_are_refused() -> None:
    bomb = "{% for i in range(10**9) %}{% endfor %}"
    body: dict[str, Any] = {"messages": [{"role": "user", "content": "a"}]}
    for more in ({"chat_template": bomb}, {"chat_template_kwargs": {"chat_template": bomb}},
                 {"chat_template_kwargs": {"tokenize": True}}, {"chat_template_kwargs": {"messages": []}}):  # fmt: skip
        for path in ("/v1/chat/completions", "/tokenize"):
            assert call("POST", path, json=body | more).status_code == 400, (path, more)


@pytest.mark.cpu
@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"prompt": "a", "n": 10**9}, "n"),
        ({"prompt": "a", "n": 16384}, "n"),
        ({"prompt": ["a"] * 1025}, "prompt"),
        ({"prompt": ["a"] * 1000, "n": 5}, "n"),
        ({"prompt": "a", "best_of": 100_000}, "best_of"),
        ({"prompt": "a", "cache_salt": "a" * 1_000_000}, "cache_salt"),
        ({"prompt": "a", "stop": "a" * 1_000_000}, "stop"),
        ({"prompt": "a", "stop": ["a"] * 100_000}, "stop"),
        ({"prompt": "a", "logprobs": 10**6}, "logprobs"),
        ({"prompt": "a", "min_tokens": 2**31}, "min_tokens"),
        ({"prompt": "a", "stop_token_ids": [2**31]}, "stop_token_ids"),
        ({"prompt": "a", "logit_bias": {"191222999": -100}}, "logit_bias"),
        ({"prompt": "a", "model": "a" * 1_000_000}, "model"),
        ({"prompt": "a", "u" * 1_000_000: 1}, "u" * 64 + "..."),
    ],
    ids=lambda v: str(v)[:40],
)
def test_sizes_have_bounds_and_refusals_are_quick(served: Served, body: dict[str, Any], param: str) -> None:
    with httpx.Client(base_url=served.url, timeout=20) as http:
        http.get("/health")
        started_s = time.monotonic()
        answer = http.post("/v1/completions", json=body)
        assert time.monotonic() - started_s < 1
        assert answer.status_code in (400, 404)
        assert answer.json()["error"]["param"] == param
        assert len(answer.content) < 2000
