"""Ratios with their intervals as a small SVG: one line per metric, the scale logarithmic, equality marked."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final
from xml.sax.saxutils import escape

from pelton.bench.verdict import Verdict

LABEL_WIDTH: Final = 190
PLOT_WIDTH: Final = 420
NUMBER_WIDTH: Final = 130
ROW_HEIGHT: Final = 26
TOP: Final = 46
BOTTOM: Final = 40
TICKS: Final = (0.1, 0.2, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0)
STYLE: Final = "text{font:13px sans-serif;fill:#222}.n{fill:#666}.g{stroke:#ddd}.e{stroke:#888;stroke-dasharray:4 3}"


def draw_ratios(title: str, verdicts: Sequence[Verdict]) -> str:
    """The plot as a document; verdicts without a ratio have a line without a point."""
    low, high = get_range(verdicts)
    height = TOP + ROW_HEIGHT * len(verdicts) + BOTTOM
    width = LABEL_WIDTH + PLOT_WIDTH + NUMBER_WIDTH

    def x_of(ratio: float) -> float:
        return round(LABEL_WIDTH + PLOT_WIDTH * math.log(ratio / low) / math.log(high / low), 1)

    bottom = height - BOTTOM
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">',
        f"<style>{STYLE}.i{{stroke:#2563a8;stroke-width:3}}.p{{fill:#2563a8}}</style>",
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
        f'<text x="12" y="24" font-weight="bold">{escape(title)}</text>',
    ]
    for tick in TICKS:
        if low <= tick <= high:
            x = x_of(tick)
            kind = "e" if tick == 1 else "g"
            parts.append(f'<line class="{kind}" x1="{x}" x2="{x}" y1="{TOP - 8}" y2="{bottom}"/>')
            parts.append(f'<text class="n" x="{x}" y="{bottom + 18}" text-anchor="middle">{tick:g}x</text>')
    for number, verdict in enumerate(verdicts):
        parts += draw_row(verdict, TOP + ROW_HEIGHT * number + ROW_HEIGHT / 2, x_of)
    return "\n".join([*parts, "</svg>", ""])


def draw_row(verdict: Verdict, y: float, x_of: Callable[[float], float]) -> list[str]:
    """One metric's line."""
    parts = [f'<text x="12" y="{y + 4}">{escape(verdict.title)}</text>']
    number_x = LABEL_WIDTH + PLOT_WIDTH + 12
    ratio = verdict.ratio
    if ratio is None:
        return [*parts, f'<text class="n" x="{number_x}" y="{y + 4}">no block kept</text>']
    said = f"{ratio.median:.2f}x"
    if ratio.low is not None and ratio.high is not None:
        parts.append(f'<line class="i" x1="{x_of(ratio.low)}" x2="{x_of(ratio.high)}" y1="{y}" y2="{y}"/>')
        said += f" ({ratio.low:.2f}-{ratio.high:.2f})"
    parts.append(f'<circle class="p" cx="{x_of(ratio.median)}" cy="{y}" r="5"/>')
    return [*parts, f'<text x="{number_x}" y="{y + 4}">{said}</text>']


def get_range(verdicts: Sequence[Verdict]) -> tuple[float, float]:
    """The ends of the scale: ticks around every value and around equality."""
    values = [1.0]
    for ratio in (verdict.ratio for verdict in verdicts):
        if ratio is not None:
            values += [each for each in (ratio.median, ratio.low, ratio.high) if each is not None]
    low = max((tick for tick in TICKS if tick < min(values)), default=min(values) / 2)
    high = min((tick for tick in TICKS if tick > max(values)), default=max(values) * 2)
    return low, high
