"""Writes the pages of docs/reference that come from code: `python tools/write_reference.py`. Tests compare them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from prometheus_client.parser import text_string_to_metric_families

from pelton import errors
from pelton.config.reference import format_markdown_table, render_configuration
from pelton.core.outputs import EngineStats
from pelton.inspection.finding import KINDS
from pelton.observability.ledger import FINISH_REASONS, MAX_TENANTS
from pelton.observability.metrics import Metrics

ROOT = Path(__file__).resolve().parent.parent

ERRORS_INTRODUCTION = """\
# Errors

Made by `make docs` from `src/pelton/errors.py`; a test compares the two.

The class of an error decides its HTTP status and its exit code, and nothing else does. Over HTTP an error has the shape
of the OpenAI API: `{"error": {"message": ..., "type": ..., "param": ..., "code": ...}}`, with the type below. On the
command line it is one line, `pelton: error: ...`. A wrong flag or an unknown command is exit code 2, Ctrl-C is 130.
"""


def render_errors() -> str:
    """docs/reference/errors.md."""
    rows = [
        (
            f"{'&nbsp;&nbsp;' * depth}`{error.__name__}`",
            str(error.http_status),
            str(error.exit_code),
            error.error_type,
            (error.__doc__ or "").partition("\n")[0],
        )
        for error, depth in walk(errors.EngineError)
    ]
    table = format_markdown_table(("error", "HTTP", "exit code", "type", "when"), rows)
    return f"{ERRORS_INTRODUCTION}\n{table}"


METRICS_INTRODUCTION = f"""\
# Metrics

Made by `make docs` from `src/pelton/observability`; a test compares the two.

`GET /metrics` serves them in the Prometheus format. Every sample has the labels `model_name` and `engine` besides
those in the table; a counter's name ends in `_total`, and a histogram has `_bucket`, `_sum` and `_count`. What the
words mean is in [concepts](../concepts/metrics.md).

## What always holds

An *answer* is one of the `n` completions of one prompt. At every scrape, also while requests come, leave and fail, and
while the engine is restarted, each answer that was asked for is in exactly one place:

```
requests_received_total = num_requests_running + num_requests_waiting + request_success_total + requests_refused_total
http_requests_received_total = http_requests_in_progress + http_requests_total
```

summed over their labels, and the same for each tenant. No counter goes back while the server lives. A request that is
refused before it is known how many answers it wants counts as one.

- `finished_reason`: {", ".join(f"`{reason}`" for reason in FINISH_REASONS)}. `abort` is a
  client that has left, or a server that shuts down; `client_too_slow` is one that did not read; `error` is a fault on
  this side.
- `stage` of a refusal: `auth`, `request` (the body), `reserve` (no room), `prepare` (template and tokens), `engine`
  (it could never run, or there is no engine). `status` is that of the answer.
- `num_requests_running` is the engine's newest word; all other live answers wait, be it to be tokenized, for memory,
  or for an engine. With `engine_up` 0 there is none; once it is gone, the gauges of its memory are 0.
- The sums of `tenant_*_tokens_total` are those of `usage` in the answers, of requests that were cut off too; a prompt
  counts once, whatever `n` is. `prompt_tokens_total` and `generation_tokens_total` are what engines computed.
- At most {MAX_TENANTS} tenants have a label of their own; further ones are `other`, and requests of nobody `default`.

## All of them
"""


def render_metrics() -> str:
    """docs/reference/metrics.md."""
    metrics = Metrics("m", EngineStats, {"block_size": 32, "num_blocks": 64, "kv_cache_memory_bytes": 1})
    metrics.ledger.receive()
    metrics.ledger.refuse(1, "reserve", 503)
    metrics.http.begin()
    metrics.http.end("/health", 200)
    rows = []
    for family in sorted(text_string_to_metric_families(metrics.render().decode()), key=lambda f: f.name):
        labels = {name for sample in family.samples for name in sample.labels} - {"model_name", "engine", "le"}
        suffix = "_total" if family.type == "counter" else ""
        own = ", ".join(f"`{name}`" for name in sorted(labels))
        rows.append((f"`{family.name}{suffix}`", family.type, own, family.documentation))
    return METRICS_INTRODUCTION + "\n" + format_markdown_table(("metric", "type", "labels", "what"), rows)


def walk(error: type[errors.EngineError], depth: int = 0) -> Iterator[tuple[type[errors.EngineError], int]]:
    """The classes of the tree with their depth, parents first, in the order they are written."""
    yield error, depth
    for child in error.__subclasses__():
        if child.__module__ == errors.__name__:
            yield from walk(child, depth + 1)


FAILURES = ROOT / "tests" / "catalogue" / "rows"
FAILURES_INTRODUCTION = """\
# Known failures

Made by `make docs` from `tests/catalogue/rows`; a test compares the two.

What has gone wrong in public when models were converted, quantized or loaded, mostly without any error, and what
Pelton does about each. A row names the tests that show it; *not here* means that there is nothing to go wrong, *not
yet* that the check is still missing. References are issues of the project named, or its source.
"""


def render_failures() -> str:
    """docs/reference/known-failures.md."""
    groups = {path.name[0].upper(): yaml.safe_load(path.read_text("utf-8")) for path in sorted(FAILURES.glob("*.yaml"))}
    rows = [row for group in groups.values() for row in group["rows"].values()]
    tested = sum("not_applicable" not in row and "not_yet" not in row for row in rows)
    missing = sum("not_yet" in row for row in rows)
    counts = f"{len(rows)} rows: {tested} with tests, {missing} not yet, {len(rows) - tested - missing} not here."
    parts = [FAILURES_INTRODUCTION, counts]
    for letter, group in groups.items():
        cells = [(name, row["what"], list_references(row["seen"]), tell(row)) for name, row in group["rows"].items()]
        table = format_markdown_table(("", "what went wrong", "where", "what Pelton does, and the test"), cells)
        parts.append(f"## {letter}. {group['title']}\n\n{table}")
    return "\n\n".join(part.rstrip() for part in parts) + "\n"


def list_references(seen: list[str]) -> str:
    """Links to issues, names of sources."""
    issues = [(name, *name.split("#")) for name in seen if "#" in name]
    links = [f"[{name}](https://github.com/{project}/issues/{number})" for name, project, number in issues]
    return ", ".join(links + [name for name in seen if "#" not in name])


def tell(row: dict[str, Any]) -> str:
    """The last cell of a row."""
    reasons = [
        f"*{word}*: {row[key]}." for key, word in (("not_applicable", "not here"), ("not_yet", "not yet")) if key in row
    ]
    tests = [f"[{name.partition('::')[2]}](../../{name.partition('::')[0]})" for name in row.get("tests", [])]
    return " ".join(part for part in (row.get("does", ""), *reasons, ", ".join(tests)) if part)


FINDINGS_INTRODUCTION = """\
# Findings of `pelton inspect`

Made by `make docs` from `src/pelton/inspection/finding.py`; a test compares the two.

The ids are stable. An *error* means wrong answers or none, a *warning* that somebody should look, a *note* that other
programs may read the model differently ([how to](../how-to/inspect.md)).
"""


def render_findings() -> str:
    """docs/reference/findings.md."""
    rows = [(f"`{id_}`", kind.severity, kind.title, kind.advice) for id_, kind in KINDS.items()]
    return f"{FINDINGS_INTRODUCTION}\n{format_markdown_table(('id', 'severity', 'what is found', 'what to do'), rows)}"


PAGES = {
    "docs/reference/findings.md": render_findings,
    "docs/reference/known-failures.md": render_failures,
    "docs/reference/configuration.md": render_configuration,
    "docs/reference/errors.md": render_errors,
    "docs/reference/metrics.md": render_metrics,
}


def main() -> int:
    """Write every page."""
    for name, render in PAGES.items():
        path = ROOT / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(render(), encoding="utf-8")
        print(name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
