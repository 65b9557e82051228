"""One start of an engine, timed from within: `python -m pelton.bench.startup_child CONFIG MODEL`.

Prints one line of JSON. Runs in a fresh process each time; CONFIG is settings as JSON.
"""

from __future__ import annotations

import json
import sys
import time

START_S = time.perf_counter()
PROMPT_TOKENS = 32


def main(arguments: list[str]) -> int:
    """Open, load, and make the first token."""
    from pelton.api.assemble import make_loop, open_model  # noqa: PLC0415  its import is part of what is timed
    from pelton.bench.memory import read_peak_bytes  # noqa: PLC0415
    from pelton.bench.offline import Workload, make_run  # noqa: PLC0415
    from pelton.config.user_config import ask  # noqa: PLC0415
    from pelton.tokenization import make_tokenizer  # noqa: PLC0415

    settings, model = json.loads(arguments[0]), arguments[1]
    imported_s = time.perf_counter()
    opened = open_model(ask(**settings, model=model))
    opened_s = time.perf_counter()
    engine = make_loop(opened.checkpoint, opened.config, lambda _stage, _fraction: None)
    loaded_s = time.perf_counter()
    vocab_size = opened.checkpoint.spec.vocab_size
    make_run(engine, Workload(batch=1, prompt_tokens=PROMPT_TOKENS, output_tokens=1), 1, seed=1, vocab_size=vocab_size)
    first_token_s = time.perf_counter()
    make_tokenizer(opened.checkpoint.tokenizer_source)
    tokenizer_s = time.perf_counter()
    found = {
        "import_s": imported_s - START_S,
        "open_s": opened_s - imported_s,
        "load_s": loaded_s - opened_s,
        "first_token_s": first_token_s - loaded_s,
        "tokenizer_s": tokenizer_s - first_token_s,
        "peak_bytes": read_peak_bytes(),
    }
    print(json.dumps(found))
    engine.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
