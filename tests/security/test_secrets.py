"""A server's key, its prompts and its answers are in no log, no metric and no error; nobody writes lines of the log."""

from __future__ import annotations

import json
import re
from pathlib import Path

import httpx
import pytest
from tests.end_to_end.served import serve

pytestmark = pytest.mark.cpu  # real processes
KEY, PROMPT, ANSWER = "canary-key-7f3a", "canary prompt 91bc", "canary answer 55de"
FORGED = 'x\r\n2026-01-01T00:00:00.000Z error   server: forged\x1b[31m "a": 1}\n{"level": "error", "event": "forged'


def use_everything(url: str) -> str:
    """Every route, rightly and wrongly; all that was answered but answers of the model."""
    seen = []
    for key in (KEY, f"{KEY}x", None):
        headers = {"x-request-id": f"{KEY} {PROMPT}"} | ({"authorization": f"Bearer {key}"} if key else {})
        with httpx.Client(base_url=url, headers=headers, timeout=20) as http:
            for path in (
                "/health",
                "/ready",
                "/version",
                "/config",
                "/metrics",
                "/v1/models",
                "/openapi.json",
                "/docs",
            ):
                seen.append(http.get(path).text)
            seen.append(http.get("/nothing", params={"key": KEY}).text)
            bodies = [
                {"messages": [{"role": "user", "content": f"{PROMPT}\x02{ANSWER}\x03"}]},
                {"messages": [{"role": "user", "content": PROMPT}], "temperature": 9},
                {"messages": [{"role": "user", "content": PROMPT}], "user": FORGED, "max_tokens": 1},
                {"messages": [{"role": "user", "content": PROMPT}], "model": FORGED},
                {"messages": [{"role": "user", "content": PROMPT}], FORGED: 1},
            ]
            for body in bodies:
                answer = http.post("/v1/chat/completions", json=body)
                if answer.status_code != httpx.codes.OK:
                    seen.append(answer.text + str(answer.headers))
    return "\n".join(seen)


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_nothing_tells_what_is_secret(log_format: str, tmp_path: Path) -> None:
    config = tmp_path / "pelton.yaml"
    config.write_text(f"server:\n  api-key: {KEY}\nlog:\n  log-format: {log_format}\n  log-level: debug\n")
    with serve("oracle", "--executor", "scripted", "--config", str(config)) as served:
        seen = use_everything(served.url)
        httpx.get(served.url + "/v1/models/" + "a%0a2026-01-01T00:00:00Z%20error%20forged%1b[31m", timeout=20)
        assert served.end() == 0
        lines = served.read_rest()
    text = "".join(lines)
    assert text.count("/v1/chat/completions") > 10, "requests are in the log"
    for secret in (KEY, PROMPT, ANSWER):
        assert secret not in text
    assert KEY not in seen
    assert PROMPT not in seen
    assert "\x1b" not in text
    assert "\r" not in text
    if log_format == "json":
        events = [json.loads(line) for line in lines if line.startswith("{")]
        assert not [event for event in events if event["event"] == "forged"]
    assert not [line for line in lines if re.match(r"\S+ error +server: forged", line)]
