"""What a soak found: figures as JSON, a page to read, and a plot of answers per second with the kills in it."""

from __future__ import annotations

import json
import math
import statistics
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.soak.run import Soak

WIDTH, HEIGHT = 960, 240
COLOURS = {"ok": "#2a7", "left": "#79c", "refused": "#da3", "late": "#a6c", "lost": "#d33"}
MAX_SHOWN = 40


def write_report(soak: Soak, folder: Path) -> str:
    """Write the three files; the page."""
    folder.mkdir(parents=True, exist_ok=True)
    figures = make_figures(soak)
    page = make_page(figures, soak.problems)
    (folder / "soak.json").write_text(json.dumps({**figures, "problems": soak.problems}, indent=1) + "\n")
    (folder / "soak.md").write_text(page)
    (folder / "soak.svg").write_text(draw(soak))
    return page


def make_figures(soak: Soak) -> dict[str, Any]:
    """The figures of a soak."""
    recoveries = sorted(soak.recoveries_s)
    return {
        "minutes": soak.minutes,
        "offered_per_s": round(soak.rate_per_s, 1),
        "requests": sum(soak.kinds.values()),
        **{f"requests_{kind}": soak.kinds[kind] for kind in COLOURS},
        **{f"clients_that_{manner}": count for manner, count in sorted(soak.manners.items())},
        "tokens": soak.num_tokens,
        "kills": sum(how == "kill" for _, how in soak.kills_s),
        "stops": sum(how == "stop" for _, how in soak.kills_s),
        "engine_restarts": soak.num_restarts_seen,
        "recovery_p50_s": round(statistics.median(recoveries), 2) if recoveries else None,
        "recovery_p99_s": round(recoveries[math.ceil(0.99 * (len(recoveries) - 1))], 2) if recoveries else None,
        "recovery_max_s": round(recoveries[-1], 2) if recoveries else None,
        "scrapes": soak.num_scrapes,
        "memory_mb_per_100k_requests": estimate_leak(soak),
        "memory_mb_last": round(soak.memory_mb[-1][1], 1) if soak.memory_mb else None,
        "open_files": soak.files,
        "problems_found": len(soak.problems),
    }


def estimate_leak(soak: Soak) -> float | None:
    """Growth of the server's memory by the median of slopes between far points (Theil and Sen), after a warm-up."""
    points = soak.memory_mb[len(soak.memory_mb) // 5 :]
    half = len(points) // 2
    if half < 5:
        return None
    slopes = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in zip(points[:half], points[half : 2 * half], strict=True)]
    per_s = sum(soak.kinds.values()) / (60 * soak.minutes)
    return round(statistics.median(slopes) / per_s * 100_000, 2)


def make_page(figures: dict[str, Any], problems: list[str]) -> str:
    """Markdown."""
    rows = [f"| {name.replace('_', ' ')} | {value} |" for name, value in figures.items()]
    shown = [f"- {problem}" for problem in problems[:MAX_SHOWN]] or ["None."]
    return "\n".join(["# Soak", "", "| | |", "|---|---|", *rows, "", "## Problems", "", *shown, ""])


def draw(soak: Soak) -> str:
    """Answers per second by how they ended, as an SVG; a line for every kill."""
    last = max(soak.per_second, default=0) + 1
    highest = max((sum(counts.values()) for counts in soak.per_second.values()), default=1)
    parts = []
    for second, counts in sorted(soak.per_second.items()):
        y = float(HEIGHT)
        for kind, colour in COLOURS.items():
            height = HEIGHT * counts[kind] / highest
            y -= height
            if counts[kind]:
                x, width = WIDTH * second / last, max(0.5, WIDTH / last)
                parts.append(
                    f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{colour}"/>'
                )
    for at_s, how in soak.kills_s:
        x = WIDTH * at_s / last
        dash = ' stroke-dasharray="4"' if how == "stop" else ""
        parts.append(f'<path d="M{x:.1f} 0V{HEIGHT}" stroke="#333" stroke-width="0.7"{dash}/>')
    legend = "".join(
        f'<text x="{10 + 90 * index}" y="{HEIGHT + 18}" fill="{colour}">{kind}</text>'
        for index, (kind, colour) in enumerate(COLOURS.items())
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT + 26}" font-family="sans-serif" '
        f'font-size="13">{"".join(parts)}{legend}<text x="{WIDTH - 10}" y="{HEIGHT + 18}" text-anchor="end">'
        f"answers per second, at most {highest}; lines: the engine is killed, dashed: stopped</text></svg>\n"
    )
