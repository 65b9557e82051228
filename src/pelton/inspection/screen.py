"""A report as text for a terminal: one screen, the most important first, nothing that a model's files could disguise.

Whatever comes from a file is written with its control characters escaped, so that no name can move the cursor.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pelton.inspection.finding import Finding
from pelton.inspection.report import Report
from pelton.inspection.scan import Numbers

_WIDTH = 118
_LABEL = 14


def format_report(report: Report) -> str:
    """The whole screen."""
    lines = [
        *_lines("path", report.path),
        *_lines("format", f"{report.format}, {_count(report.num_files, 'file')}"),
        *_size_lines(report),
    ]
    for name, value in report.model.items():
        lines += _lines(name, value)
    lines += _text_lines(report)
    if report.generation:
        lines += _lines("sampling", report.generation)
    for index, ignored in enumerate(report.ignored):
        lines += _lines("ignored" if index == 0 else "", f"{ignored.what} ({ignored.why})")
    for name, digest in report.hashes.items():
        lines += _lines("sha256", f"{digest}  {name}")
    lines += [line for finding in report.findings for line in _finding_lines(finding)]
    if not report.findings and not report.refusals:
        lines += ["", "nothing suspicious was found"]
    if report.refusals:
        lines += ["", "refused: this model cannot be served", *(f"  {escape(why)}" for why in report.refusals)]
    return "\n".join(lines)


def escape(text: str) -> str:
    r"""Text of a stranger, with what a terminal would act on made visible.

    >>> escape("a\x1b[2Jb\n")
    'a\\x1b[2Jb\\n'
    """
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def format_bytes(count: int) -> str:
    """A size as publishers of models give it.

    >>> format_bytes(491_400_064), format_bytes(900)
    ('491.4 MB', '900 B')
    """
    for power, unit in ((12, "TB"), (9, "GB"), (6, "MB"), (3, "kB")):
        if count >= 10**power:
            return f"{count / 10**power:.1f} {unit}"
    return f"{count} B"


def format_count(count: int) -> str:
    """A number of parameters.

    >>> format_count(494_032_768), format_count(8_030_261_248), format_count(950)
    ('494.0 M', '8.03 B', '950')
    """
    if count >= 10**9:
        return f"{count / 1e9:.2f} B"
    return f"{count / 1e6:.1f} M" if count >= 10**6 else f"{count:,}"


def format_tensors(report: Report) -> str:
    """A line for each tensor, in file order, with its numbers where a pass was made."""
    header = ("tensor", "shape", "scheme", "bytes", "minimum", "maximum", "mean", "zeros", "not finite")
    rows: list[Sequence[str]] = [header]
    for name, info in report.tensors.items():
        numbers = None if report.numbers is None else report.numbers.get(name)
        shape = " x ".join(map(str, info.shape)) or "scalar"
        rows.append((escape(name), shape, info.scheme, f"{info.nbytes:,}", *_cells(numbers)))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    aligned = [[cell.ljust(w) if i < 3 else cell.rjust(w) for i, (cell, w) in _paired(row, widths)] for row in rows]
    return "\n".join("  ".join(cells).rstrip() for cells in aligned)


def _paired(row: Sequence[str], widths: Sequence[int]) -> Iterator[tuple[int, tuple[str, int]]]:
    return iter(enumerate(zip(row, widths, strict=True)))


def _cells(numbers: Numbers | None) -> tuple[str, ...]:
    if numbers is None:
        return ("-",) * 5
    values = (numbers.minimum, numbers.maximum, numbers.mean)
    return (*(f"{value:.4g}" for value in values), f"{numbers.num_zero:,}", f"{numbers.num_not_finite:,}")


def _size_lines(report: Report) -> Iterator[str]:
    if not report.tensors:
        return
    bits = 8 * report.nbytes / max(1, sum(share.num_elements for share in report.schemes))
    active = ""
    if report.num_active_parameters != report.num_parameters:
        active = f", {format_count(report.num_active_parameters)} active for each token"
    count = f"{format_count(report.num_parameters)} parameters{active}"
    yield from _lines("size", f"{count}, {_count(len(report.tensors), 'tensor')}, {format_bytes(report.nbytes)}")
    shares = [f"{share.scheme} {100 * share.nbytes / max(1, report.nbytes):.1f} %" for share in report.schemes[:8]]
    yield from _lines("schemes", f"{', '.join(shares)} of the bytes; {bits:.2f} bits a weight")


def _text_lines(report: Report) -> Iterator[str]:
    text = report.text
    if text.tokenizer:
        words = text.tokenizer
        yield from _lines("tokenizer", f"{words['kind']}, {words['size']}, adds {words['adds']}")
        yield from _lines("", f"pre-tokenizer {words['pre-tokenizer']}")
        yield from _lines("", f"special {words['special tokens']}")
    for index, (place, what) in enumerate(text.templates.items()):
        yield from _lines("template" if index == 0 else "", f"{place}: {what}")
    if text.variables:
        yield from _lines("", f"reads {', '.join(text.variables)}")
    if text.end_ids:
        yield from _lines("stop ids", ", ".join(f"{id_} {spelling!r}" for id_, spelling in text.end_ids.items()))


def _finding_lines(finding: Finding) -> Iterator[str]:
    yield ""
    yield f"{finding.kind.severity}: {finding.kind.title} [{finding.id}]"
    yield from _wrap(f"{escape(finding.sentence)} {finding.kind.advice}", "  ")


def _lines(label: str, value: str) -> Iterator[str]:
    """`value` beside its label, broken at spaces."""
    for index, line in enumerate(_wrap(escape(value), " " * _LABEL)):
        yield label.ljust(_LABEL) + line[_LABEL:] if index == 0 else line


def _wrap(text: str, indent: str) -> Iterator[str]:
    line = indent
    for word in text.split(" "):
        if len(line) + len(word) > _WIDTH and line.strip():
            yield line.rstrip()
            line = indent
        line += f"{word} "
    yield line.rstrip()


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
