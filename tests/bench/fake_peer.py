"""Peers without an engine, as scripts for a Python of any kind."""

from __future__ import annotations

from pathlib import Path

FACTS = 'print(\'{"engine": "flat", "version": "1", "model": "m", "precision": "none", "load_s": 0.5}\', flush=True)'

ECHO = f"""
import json, sys
{FACTS}
for line in sys.stdin:
    request = json.loads(line)
    answer = {{"error": "too much"}} if request.get("batch", 1) > 99 else request
    print(json.dumps(answer), flush=True)
"""

FLAT_LOGITS = """
import array, json, sys
FACTS
for line in sys.stdin:
    request = json.loads(line)
    num_rows = len(request["token_ids"])
    with open(request["file"], "wb") as file:
        array.array("f", [0.5] * (num_rows * {vocab_size})).tofile(file)
    print(json.dumps(dict(num_rows=num_rows, num_columns={vocab_size})), flush=True)
""".replace("FACTS", FACTS.replace("{", "{{").replace("}", "}}"))


def write_peer(folder: Path, code: str) -> Path:
    """A script in `folder`."""
    script = folder / "fake_peer.py"
    script.write_text(code, encoding="utf-8")
    return script
