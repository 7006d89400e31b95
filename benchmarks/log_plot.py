"""Curves on two logarithmic axes as an SVG picture, panels side by side, without a plotting library."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import NamedTuple

Points = Sequence[tuple[float, float]]
WIDTH, HEIGHT, LEFT, TOP, GAP = 250, 210, 56, 34, 62
COLOURS = ("#1b6ca8", "#c4512d", "#3d8b40", "#7a4fa3")


class Panel(NamedTuple):
    """Some curves with common axes; the name of a curve stands in the legend below."""

    title: str
    x_name: str
    curves: Mapping[str, Points]


def svg(panels: Sequence[Panel]) -> str:
    """The picture as text."""
    width = len(panels) * (LEFT + WIDTH) + GAP // 2
    height = TOP + HEIGHT + 44 + 16 * max(len(panel.curves) for panel in panels)
    drawn = [_panel(panel, number * (LEFT + WIDTH) + LEFT) for number, panel in enumerate(panels)]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        'font-family="sans-serif" font-size="11" fill="#222">\n'
        f'<rect width="{width}" height="{height}" fill="white"/>\n' + "\n".join(drawn) + "\n</svg>\n"
    )


def _panel(panel: Panel, left: int) -> str:
    inner = WIDTH - GAP // 2
    bottom = TOP + HEIGHT
    points = [point for curve in panel.curves.values() for point in curve]
    (x_low, x_high), (y_low, y_high) = (_range([point[axis] for point in points]) for axis in (0, 1))

    def place(x: float, y: float) -> tuple[float, float]:
        across = math.log10(x / x_low) / math.log10(x_high / x_low)
        up = math.log10(y / y_low) / math.log10(y_high / y_low)
        return left + inner * across, bottom - HEIGHT * up

    parts = [f'<text x="{left}" y="{TOP - 14}" font-size="13" font-weight="bold">{escape(panel.title)}</text>']
    for value in _ticks(y_low, y_high):
        y = place(x_low, value)[1]
        parts.append(f'<line x1="{left}" x2="{left + inner}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{value:g}</text>')
    for value in sorted({x for x, _ in points}):
        x = place(value, y_low)[0]
        parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{bottom}" y2="{bottom + 4}" stroke="#222"/>')
        parts.append(f'<text x="{x:.1f}" y="{bottom + 16}" text-anchor="middle">{value:g}</text>')
    parts.append(f'<path d="M{left} {TOP}V{bottom}H{left + inner}" fill="none" stroke="#222"/>')
    parts.append(
        f'<text x="{left + inner / 2:.0f}" y="{bottom + 31}" text-anchor="middle">{escape(panel.x_name)}</text>'
    )
    for number, (name, curve) in enumerate(panel.curves.items()):
        colour, y = COLOURS[number % len(COLOURS)], bottom + 50 + 16 * number
        places = [place(*point) for point in curve]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.8"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.6" fill="{colour}"/>' for x, y in places]
        parts.append(
            f'<line x1="{left}" x2="{left + 18}" y1="{y - 4}" y2="{y - 4}" stroke="{colour}" stroke-width="2"/>'
        )
        parts.append(f'<text x="{left + 24}" y="{y}">{escape(name)}</text>')
    return "\n".join(parts)


def _range(values: Sequence[float]) -> tuple[float, float]:
    """From a little below the least to a little above the largest."""
    return min(values) / 1.25, max(values) * 1.25


def _ticks(low: float, high: float) -> list[float]:
    steps = (1,) if high / low > 30 else (1, 2, 5)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [step * 10.0**power for power in powers for step in steps if low <= step * 10.0**power <= high]
