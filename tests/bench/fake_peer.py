"""Peers without an engine, as scripts for a Python of any kind."""

from __future__ import annotations

from pathlib import Path

START = """
import argparse, array, json, sys
parser = argparse.ArgumentParser()
parser.add_argument("model", nargs="?", default="m")
parser.add_argument("--threads", type=int)
args = parser.parse_args()
facts = dict(engine="flat", version="1", model=args.model, precision='none', load_s=0.5)
print(json.dumps(facts), flush=True)
"""

ECHO = f"""{START}
for line in sys.stdin:
    request = json.loads(line)
    answer = dict(error="too much") if request.get("batch", 1) > 99 else request
    print(json.dumps(answer), flush=True)
"""

CONSTANT_TIMES = f"""{START}
for line in sys.stdin:
    print(json.dumps(dict(prefill_s=1.0, decode_s=1.0)), flush=True)
"""

FLAT_LOGITS = f"""{START}
for line in sys.stdin:
    request = json.loads(line)
    num_rows = len(request["token_ids"])
    with open(request["file"], "wb") as file:
        array.array("f", [0.5] * (num_rows * VOCAB_SIZE)).tofile(file)
    print(json.dumps(dict(num_rows=num_rows, num_columns=VOCAB_SIZE)), flush=True)
"""


def write_peer(folder: Path, code: str, vocab_size: int = 3) -> Path:
    """A script in `folder`."""
    script = folder / "fake_peer.py"
    script.write_text(code.replace("VOCAB_SIZE", str(vocab_size)), encoding="utf-8")
    return script
