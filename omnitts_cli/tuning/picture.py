"""Curves of training as a picture: an SVG with a panel for each stage. Losses are on a logarithmic scale."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

WIDTH, HEIGHT, EDGE, LEGEND = 720, 320, 56, 150
GRID = 4
DOTTED = 40  # curves with fewer points than that also have dots
COLOURS = ("#9bb8d3", "#c0392b", "#2e7d5b", "#b8860b", "#6a4c93", "#444", "#d16ba5", "#1f77b4", "#8c564b")
Curve = Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Panel:
    """`curves`: points by name; `along`: what they are drawn over."""

    title: str
    along: str
    curves: Mapping[str, Curve]


def svg(panels: Sequence[Panel]) -> str:
    """Panels below each other. Each has a point at least."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT * len(panels)}" '
        'font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="#fff"/>',
    ]
    for number, panel in enumerate(panels):
        parts += [f'<g transform="translate(0 {HEIGHT * number})">', *drawn(panel), "</g>"]
    return "\n".join([*parts, "</svg>\n"])


def drawn(panel: Panel) -> list[str]:
    """The elements of one panel."""
    points = [point for curve in panel.curves.values() for point in curve if point[1] > 0]
    most = max(x for x, _ in points) or 1.0
    low, high = (math.log(edge(y for _, y in points)) for edge in (min, max))
    high = high if high > low else low + 1.0

    def height(loss: float) -> float:
        return EDGE + (HEIGHT - 2 * EDGE) * (high - math.log(loss)) / (high - low)

    right = WIDTH - EDGE - LEGEND
    parts = [f'<text x="{EDGE}" y="{EDGE / 2}">{panel.title}</text>']
    for number in range(GRID + 1):
        loss = math.exp(low + (high - low) * number / GRID)
        parts.append(f'<path d="M{EDGE} {height(loss):.1f}H{right}" stroke="#ddd"/>')
        parts.append(f'<text x="{EDGE - 6}" y="{height(loss):.1f}" text-anchor="end">{loss:.4g}</text>')
    for number, (name, curve) in enumerate(panel.curves.items()):
        colour = COLOURS[number % len(COLOURS)]
        at = [(EDGE + (right - EDGE) * x / most, height(y)) for x, y in curve if y > 0]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in at)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        if len(at) < DOTTED:
            parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in at]
        parts.append(f'<text x="{right + 12}" y="{EDGE + 16 * number}" fill="{colour}">{name}</text>')
    parts.append(f'<text x="{right}" y="{HEIGHT - 12}" text-anchor="end">{panel.along} (at most {most:.4g})</text>')
    return parts
