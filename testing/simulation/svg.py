"""SVG: a sequence diagram as a picture that any browser shows, without tools or a network (pure)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from xml.sax.saxutils import escape  # writes only: nothing is parsed

if TYPE_CHECKING:
    from .diagram import Diagram, DiagramStep

COLUMN: Final = 190
ROW: Final = 30
_TOP: Final = 60
_CHARACTER: Final = 6.2
"""The width of one, in pixels, at the size below."""
_STYLE: Final = (
    "text{font:11px ui-monospace,Menlo,Consolas,monospace;fill:#222;paint-order:stroke;stroke:#fff;stroke-width:2px}"
    ".name{font-weight:bold;text-anchor:middle}.axis{stroke:#bbb;stroke-dasharray:3 3}"
    ".send{stroke:#2463a8;stroke-width:1.3}.lost{stroke:#c22;stroke-width:1.3}"
    ".note{fill:#fff8dc;stroke:#d8c878}.done{fill:#fde8e6;stroke:#d99}.who{fill:#eef3fa;stroke:#9ab}"
)


def svg(diagram: Diagram) -> str:
    """The picture. One column for each name, one row for each step."""
    count = max(len(diagram.names), 1)
    longest = max((len(step.timed) for step in diagram.steps), default=0)
    width = max(count * COLUMN, round(longest * _CHARACTER) + COLUMN)
    height = _TOP + (len(diagram.steps) + 2) * ROW
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">',
        f"<style>{_STYLE}</style>",
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
    ]
    for i, name in enumerate(diagram.names):
        x = _x(i)
        parts.append(f'<line class="axis" x1="{x}" y1="{_TOP - 18}" x2="{x}" y2="{height - ROW / 2:g}"/>')
        parts.append(f'<rect class="who" x="{x - 85}" y="14" width="170" height="28" rx="4"/>')
        parts.append(f'<text class="name" x="{x}" y="32">{_text(name, 26)}</text>')
    y = _TOP + ROW // 2
    if diagram.remark:
        parts.append(f'<text x="8" y="{y}">{_text(diagram.remark)}</text>')
    for step in diagram.steps:
        y += ROW
        parts += _note(step, y, width) if step.kind == "note" else _arrow(step, y)
    return "\n".join([*parts, "</svg>", ""])


def _x(place: int) -> int:
    return place * COLUMN + COLUMN // 2


def _note(step: DiagramStep, y: int, width: int) -> list[str]:
    text_width = round(len(step.timed) * _CHARACTER) + 14
    if step.source is None:
        x, text_width, kind = 4, width - 8, "done"
    else:
        x, kind = max(4, min(_x(step.source) - text_width // 2, width - text_width - 4)), "note"
    return [
        f'<rect class="{kind}" x="{x}" y="{y - 13}" width="{text_width}" height="19" rx="3"/>',
        f'<text x="{x + 7}" y="{y + 1}">{_text(step.timed)}</text>',
    ]


def _arrow(step: DiagramStep, y: int) -> list[str]:
    assert step.source is not None
    assert step.target is not None
    begin, end = _x(step.source), _x(step.target)
    back = -1 if end < begin else 1
    if begin == end:  # to itself
        end = begin + 40
    line = f'<line class="{step.kind}" x1="{begin}" y1="{y}" x2="{end}" y2="{y}"/>'
    if step.kind == "lost":
        end -= 8 * back
        head = f'<path class="lost" fill="none" d="M{end - 5},{y - 5} l10,10 m0,-10 l-10,10"/>'
    else:
        head = f'<path class="send" fill="#2463a8" d="M{end},{y} l{-8 * back},-4 v8 z"/>'
    return [line, head, f'<text x="{min(begin, end) + 10}" y="{y - 4}">{_text(step.timed)}</text>']


def _text(text: str, most: int = 200) -> str:
    shown = "".join(char if char.isprintable() else " " for char in text)
    return escape(shown if len(shown) <= most else shown[: most - 1] + "…")
