"""The report as one page of HTML that needs nothing else: the verdict, what differs, and all that was compared."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

from pelton import __version__
from pelton.verification.finding import LEVELS, TITLES, Finding
from pelton.verification.tensors import TensorRecord
from pelton.verification.verify import Report

_MEANINGS: Final = {
    "LOSSLESS": "The same model, bit for bit.",
    "EQUIVALENT": "The same numbers, kept in another form.",
    "LOSSY-DECLARED": "Something was lost, and the target says what.",
    "FAILED": "Not the same model.",
    "UNVERIFIED": "Nothing speaks against it, but not everything was compared.",
}
_STYLE: Final = """
:root { --ink: #1b2430; --soft: #5b6775; --line: #d9dfe6; --good: #1d7a46; --bad: #b3261e; --mid: #8a6100;
  --back: #f6f8fa }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); max-width: 62rem; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.3rem; margin: 0; overflow-wrap: anywhere }
h2 { font-size: 1.05rem; margin: 2rem 0 .5rem }
p { margin: .3rem 0 }
.verdict { border-left: .5rem solid; padding: .8rem 1rem; background: var(--back); margin: 1rem 0 }
.verdict b { font-size: 1.4rem; display: block }
.good { color: var(--good) } .bad { color: var(--bad) } .mid { color: var(--mid) } .soft { color: var(--soft) }
code { font-family: ui-monospace, monospace; font-size: .9em; overflow-wrap: anywhere }
table { border-collapse: collapse; width: 100%; font-size: .87rem }
th, td { text-align: left; padding: .25rem .6rem .25rem 0; border-bottom: 1px solid var(--line); vertical-align: top }
td.n { text-align: right; font-variant-numeric: tabular-nums }
details { margin: .5rem 0 }
summary { cursor: pointer }
svg { width: 100%; height: auto; background: var(--back) }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6eaef; --soft: #9aa6b3; --line: #333c47; --back: #161b22; --good: #58c788; --bad: #ff7b72;
    --mid: #e0b04c }
  body { background: #0d1117 }
}
"""


def make_page(report: Report) -> str:
    """The whole page."""
    kind = {"LOSSLESS": "good", "EQUIVALENT": "good", "FAILED": "bad"}.get(report.verdict, "mid")
    missing = [level for level in LEVELS if level not in report.levels]
    parts = [
        f"<h1>{escape(report.source)} <span class=soft>and</span> {escape(report.target)}</h1>",
        f'<div class="verdict {kind}"><b>{report.verdict}</b>{_MEANINGS[report.verdict]}</div>',
        f"<p>Compared: {', '.join(TITLES[level] for level in report.levels) or 'nothing'}.</p>",
    ]
    if missing:
        parts.append(f"<p class=mid>Not compared: {', '.join(TITLES[level] for level in missing)}.</p>")
    parts += [
        _findings(report.findings),
        _numbers(report),
        _tensors(report.tensors),
        _texts(report),
        _logits(report),
        _readings(report),
    ]
    parts += [_files(report), f"<p class=soft>Made by pelton {__version__}.</p>"]
    body = "\n".join(part for part in parts if part)
    head = f"<!doctype html><html lang=en><meta charset=utf-8><title>{report.verdict}</title><style>{_STYLE}</style>"
    return f'{head}<meta name=viewport content="width=device-width">{body}</html>\n'


def _findings(findings: Sequence[Finding]) -> str:
    if not findings:
        return "<h2>What differs</h2><p>Nothing.</p>"
    order = {"fails": 0, "declared": 1, "note": 2}
    names = {"fails": "bad", "declared": "mid", "note": "soft"}
    rows = [
        f"<tr><td class={names[each.weight]}>{each.weight}<td><code>{escape(each.id)}</code><td>{escape(each.what)}"
        for each in sorted(findings, key=lambda each: order[each.weight])
    ]
    return f"<h2>What differs</h2>{_table(('', 'id', 'what'), rows)}"


def _table(heads: Iterable[str], rows: Iterable[str]) -> str:
    return f"<table><tr>{''.join(f'<th>{head}' for head in heads)}{''.join(rows)}</table>"


def _folded(title: str, told: str, summary: str, table: str) -> str:
    return f"<h2>{title}</h2>{told}<details><summary>{summary}</summary>{table}</details>"


def _numbers(report: Report) -> str:
    if not report.numbers:
        return ""
    rows = [
        f"<tr{' class=bad' if str(ours) != str(theirs) else ''}><td><code>{escape(name)}</code>"
        f"<td>{escape(str(ours))}<td>{escape(str(theirs))}"
        for name, ours, theirs in report.numbers
    ]
    return _folded("The model's numbers", "", f"{len(rows)} fields", _table(("field", "source", "target"), rows))


def _tensors(records: Sequence[TensorRecord]) -> str:
    if not records:
        return ""
    counts = {name: sum(record.sameness == name for record in records) for name in ("bytes", "numbers", "different")}
    rows = [
        f"<tr><td><code>{escape(each.name)}</code><td>{'x'.join(map(str, each.shape))}<td>{each.schemes[0]}<td>"
        f"{each.schemes[1]}<td class={'bad' if each.sameness == 'different' else 'good'}>{each.sameness}"
        f"<td class=n>{each.relative_rms:.3g}<td class=n>{each.num_different}"
        for each in sorted(records, key=lambda each: -each.relative_rms)
    ]
    heads = ("in the plan", "shape", "source", "target", "same", "error (RMS)", "numbers that differ")
    told = (
        f"<p>{counts['bytes']} have the same bytes, {counts['numbers']} the same numbers, "
        f"{counts['different']} differ.</p>"
    )
    return _folded("Tensors", told, f"all {len(rows)}, the worst first", _table(heads, rows))


def _texts(report: Report) -> str:
    if report.texts is None or "L3" not in report.levels:
        return ""
    texts = report.texts
    told = (
        f"<p>{texts.num_texts} texts, {texts.num_runs} sequences of ids and {texts.num_conversations} conversations "
        "were compared.</p>"
    )
    rows = [
        f"<tr><td>{escape(each['kind'])}<td><code>{escape(each['of'])}</code><td><code>{escape(each['source'])}</code>"
        f"<td><code>{escape(each['target'])}</code>"
        for each in texts.examples
    ]
    return f"<h2>Texts</h2>{told}" + (_table(("", "of", "source", "target"), rows) if rows else "")


def _logits(report: Report) -> str:
    if report.logits is None:
        return ""
    same = 100 * report.logits.same_token
    parts = [f"<h2>Logits</h2><p>The same first choice at {same:.2f} % of the positions.</p>"]
    if report.logits.num_experts:
        told = f"{report.logits.num_experts_chosen} of {report.logits.num_experts}"
        parts.append(f"<p>{told} experts, of all layers together, were given a token.</p>")
    for name, kls in report.logits.prompts.items():
        parts.append(f"<p>{escape(name)}, {len(kls)} positions: nats apart</p>{_plot(kls)}")
    if report.logits.layers:
        parts.append(f"<p>cut off behind each layer: nats apart</p>{_plot(report.logits.layers)}")
    return "".join(parts)


def _readings(report: Report) -> str:
    if not report.readings:
        return ""
    rows = [
        f"<tr><td>{each.side}<td>{escape(each.library)}<td class=n>{each.num_tensors}<td class=n>"
        f"{each.num_bytes_compared}<td class=n>{each.num_numbers_compared}"
        for each in report.readings
    ]
    heads = ("", "package", "tensors", "of which bytes were compared", "of which numbers were")
    return f"<h2>A second reader</h2>{_table(heads, rows)}"


def _plot(values: Sequence[float]) -> str:
    """Bars over a scale from 0 to the largest value."""
    top = max(values, default=0.0)
    width, height = 900, 110
    step = width / max(1, len(values))
    bars = ""
    for index, value in enumerate(values):
        tall = 80 * value / top if top else 0.5
        bars += (
            f'<rect x="{index * step:.1f}" y="{90 - tall:.1f}" width="{max(step - 1, 0.7):.1f}" height="{tall:.1f}"/>'
        )
    return (
        f'<svg viewBox="0 0 {width} {height}" role=img><g fill="currentColor">{bars}</g>'
        f'<text x="4" y="12" font-size="11" fill="currentColor">{top:.3g}</text>'
        f'<text x="4" y="{height - 5}" font-size="11" fill="currentColor">0 to {len(values) - 1}</text></svg>'
    )


def _files(report: Report) -> str:
    rows = [
        f"<tr><td>{side}<td><code>{escape(each.name)}</code><td class=n>{each.nbytes}<td><code>{each.sha256}</code>"
        for side, records in report.files.items()
        for each in records
    ]
    table = _table(("", "file", "bytes", "SHA-256"), rows)
    return _folded("Files", "", f"{len(rows)} with their hashes", table) if rows else ""
