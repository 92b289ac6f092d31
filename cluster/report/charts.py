"""Charts: lines over time as SVG, without a script. Each has a scale, a legend, and a description in words."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from ...topology import markup

COLOURS: Final = ("#2f80c2", "#c77700", "#2e7d32", "#8e44ad", "#c62828", "#00838f", "#6d4c41", "#546e7a")

MOST_LINES: Final = len(COLOURS)
"""In one chart: those that reach highest."""

_LEAST: Final = 1e-300
"""What is less is nothing: powers of ten are not exact there."""

_WIDTH, _HEIGHT, _LEFT, _TOP, _BOTTOM = 720, 180, 64, 12, 24

Line = Sequence[tuple[float, float]]


def chart(title: str, lines: Mapping[str, Line], shown: Callable[[float], str]) -> str:
    """A figure with the lines, each (seconds, value) ascending. `shown`: a value as text. Empty without values."""
    known = {name: line for name, line in lines.items() if any(value > 0 for _, value in line)}
    highest = sorted(known, key=lambda name: -max(value for _, value in known[name]))[:MOST_LINES]
    if not highest:
        return ""
    begin = min(line[0][0] for line in known.values())
    seconds = max(1e-9, max(line[-1][0] for line in known.values()) - begin)
    top = ceiling(max(value for name in highest for _, value in known[name]))
    parts, legend = [], []
    for colour, name in zip(COLOURS, highest, strict=False):
        points = " ".join(
            f"{_LEFT + (at - begin) / seconds * (_WIDTH - _LEFT - 8):.1f},{_y(min(value, top) / top):.1f}"
            for at, value in known[name]
        )
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        best = shown(max(value for _, value in known[name]))
        legend.append(f'<li><span style="background:{colour}"></span>{markup(name, 60)} (at most {markup(best)})</li>')
    for share in (0.0, 0.5, 1.0):
        y, text = _y(share), markup(shown(top * share))
        parts.append(f'<path class="grid" d="M{_LEFT} {y:.1f} H{_WIDTH - 8}" stroke="#9aa5b1" stroke-width="0.5"/>')
        parts.append(f'<text class="axis" x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{text}</text>')
    parts.append(f'<text class="axis" x="{_LEFT}" y="{_HEIGHT - 6}">0 s</text>')
    parts.append(f'<text class="axis" x="{_WIDTH - 8}" y="{_HEIGHT - 6}" text-anchor="end">{seconds:,.0f} s</text>')
    left_out = len(known) - len(highest)
    more = f"<li>and {left_out} more, which stay below</li>" if left_out else ""
    return (
        f'<figure><figcaption>{markup(title)}</figcaption><svg role="img" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        f'aria-label="{markup(title)}">{"".join(parts)}</svg><ul class="legend">{"".join(legend)}{more}</ul></figure>'
    )


def ceiling(value: float) -> float:
    """The least of 1, 2, 5, 10, 20, … (and of 0.5, 0.2, …) that is not below it."""
    if not _LEAST < value < math.inf:
        return 1.0
    size = 10.0 ** math.floor(math.log10(value))
    return next(step * size for step in (1.0, 2.0, 5.0, 10.0) if step * size >= value)


def _y(share: float) -> float:
    return _TOP + (1 - share) * (_HEIGHT - _TOP - _BOTTOM)
