"""SVG: a graph as a picture, from left to right: boxes with lines of text, arrows with labels. No other program helps.

    boxes, arrows ─► layered (layout.py) ─► columns as wide as their widest box, gaps as wide as their labels ─► SVG

1. Everything is drawn with attributes, on a background of its own: the picture is the same in a browser, a notebook, a
   forge and a drawing program, in light and in dark. Classes let a page give it other colours.
2. Each text is escaped and cut; the whole of a name that was cut is its tooltip.
3. It is for readers without eyes, too: a title, and a description in words.
"""

from __future__ import annotations

import itertools
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from .layout import Edge, Layout, Point, layered
from .text import markup, printable, shortened

MOST_CHARS: Final = 40
"""Of a line in a picture."""

_CHAR: Final = 7.2
_BOLD: Final = 8.4
_LINE: Final = 16.0
_ROW: Final = 84.0
_PAD: Final = 12.0
_LEAST_GAP: Final = 56.0
_MARGIN: Final = 16.0
_BAR: Final = 6.0

_INK, _DIM, _EDGE, _PAPER = "#1f2933", "#52606d", "#7b8794", "#ffffff"
_FILLS: Final = {"spout": "#e3f2fd", "bolt": "#f5f7fa"}
_BARS: Final = {"calm": "#2f80c2", "filling": "#c77700", "blocked": "#c62828"}


@dataclass(frozen=True, slots=True)
class Box:
    """A component. `lines`: what is written below its name. `fill`: of its mailbox, 0 to 1; None: no bar is drawn."""

    name: str
    kind: Literal["spout", "bolt"]
    lines: tuple[str, ...] = ()
    fill: float | None = None
    level: Literal["calm", "filling", "blocked"] = "calm"


@dataclass(frozen=True, slots=True)
class Arrow:
    """From one box to another. Several with the same ends are drawn as one, with all their lines."""

    source: str
    target: str
    lines: tuple[str, ...] = ()


def draw_graph(title: str, boxes: Sequence[Box], arrows: Sequence[Arrow]) -> str:
    """The picture. The boxes are given in the order in which a search for cycles begins."""
    labels: dict[Edge, list[str]] = {}
    for arrow in arrows:
        labels.setdefault((arrow.source, arrow.target), []).extend(arrow.lines)
    layout = layered([box.name for box in boxes], labels)
    place = _Place(boxes, layout, labels)
    parts = [_head(title, boxes, labels, place)]
    parts += [_arrow(edge, lines, layout, place) for edge, lines in labels.items()]
    parts += [_box(box, place) for box in boxes]
    return "\n".join([*parts, "</svg>"])


class _Place:
    """Where everything is, in pixels. `x` and `widths`: of each layer."""

    def __init__(self, boxes: Sequence[Box], layout: Layout, labels: Mapping[Edge, list[str]]) -> None:
        self.layout = layout
        self.widths = [0.0] * max(1, layout.layers)
        self.heights = {box.name: _height(box) for box in boxes}
        for box in boxes:
            layer = int(layout.nodes[box.name][0])
            self.widths[layer] = max(self.widths[layer], _box_width(box))
        gaps = [_LEAST_GAP] * len(self.widths)
        for edge, lines in labels.items():
            if edge in layout.ways:
                layer = int(layout.nodes[edge[0]][0])
                gaps[layer] = max(gaps[layer], _text_width(lines) + 2 * _PAD)
        self.x = [_MARGIN]
        for width, gap in zip(self.widths, gaps, strict=True):
            self.x.append(self.x[-1] + width + gap)
        self.top = _MARGIN + max(self.heights.values(), default=0.0) / 2
        loops = sum(edge in layout.back for edge in labels)
        self.floor = self.top + layout.width * _ROW + max(self.heights.values(), default=0.0) / 2
        self.width = self.x[-1] - gaps[-1] + _MARGIN
        self.height = self.floor + _MARGIN + (loops * 14.0 + 22.0 if loops else 0.0)
        self._loops = itertools.count(1)

    def y(self, position: float) -> float:
        """Of a position across."""
        return self.top + position * _ROW

    def next_loop(self) -> float:
        """How far down the next arrow that closes a cycle goes."""
        return self.floor + 14.0 * next(self._loops)


def _head(title: str, boxes: Sequence[Box], labels: Mapping[Edge, list[str]], place: _Place) -> str:
    words = ", ".join(f"{printable(source)} to {printable(target)}" for source, target in labels)
    width, height = round(place.width), round(place.height)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="aiostorm" role="img" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="system-ui, sans-serif" font-size="13">\n'
        f"<title>{markup(title, 200)}</title>\n"
        f"<desc>{len(boxes)} components. {markup(words, 2000)}</desc>\n"
        f'<rect class="paper" width="{width}" height="{height}" rx="6" fill="{_PAPER}"/>'
    )


def _box(box: Box, place: _Place) -> str:
    layer, position = place.layout.nodes[box.name]
    width, height = place.widths[int(layer)], place.heights[box.name]
    x, y = place.x[int(layer)], place.y(position) - height / 2
    rounded = height / 2 if box.kind == "spout" else 6
    centre = x + width / 2
    size = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="{rounded:.1f}"'
    parts = [
        f'<g class="{box.kind}"><title>{markup(box.name, 500)}</title>',
        f'<rect {size} fill="{_FILLS[box.kind]}" stroke="{_EDGE}"/>',
        _text(box.name, centre, y + _PAD + 8, "name", _INK, bold=True),
    ]
    for i, line in enumerate(box.lines):
        parts.append(_text(line, centre, y + _PAD + 8 + _LINE * (i + 1), "note", _DIM))
    if box.fill is not None:
        inner, filled = width - 2 * _PAD, max(0.0, min(1.0, box.fill))
        bottom = y + height - _PAD - _BAR + 3
        bar = f'x="{x + _PAD:.1f}" y="{bottom:.1f}" height="{_BAR:g}" rx="2"'
        parts.append(f'<rect class="track" {bar} width="{inner:.1f}" fill="#d9e2ec"/>')
        parts.append(f'<rect class="{box.level}" {bar} width="{inner * filled:.1f}" fill="{_BARS[box.level]}"/>')
    return "".join([*parts, "</g>"])


def _arrow(edge: Edge, lines: Sequence[str], layout: Layout, place: _Place) -> str:
    if edge in layout.back:
        way, tip, label = _loop(edge, place)
    else:
        points = [_end(edge[0], place, right=True), *_bends(layout.ways[edge], place), _end(edge[1], place)]
        way, tip, label = _curve(points), points[-1], _label_place(points)
    x, y = tip
    head = f"M{x - 8:.1f} {y - 4:.1f} L{x:.1f} {y:.1f} L{x - 8:.1f} {y + 4:.1f} Z"
    if edge in layout.back:
        head = f"M{x - 4:.1f} {y + 8:.1f} L{x:.1f} {y:.1f} L{x + 4:.1f} {y + 8:.1f} Z"
    dashes = ' stroke-dasharray="5 4"' if edge in layout.back else ""
    texts = [
        _text(line, label[0], label[1] - 5 - _LINE * (len(lines) - 1 - i), "label", _DIM, halo=True)
        for i, line in enumerate(lines)
    ]
    path = f'<path class="edge" d="{way}" fill="none" stroke="{_EDGE}" stroke-width="1.5"{dashes}/>'
    return "".join(["<g>", path, f'<path class="head" d="{head}" fill="{_EDGE}"/>', *texts, "</g>"])


def _end(name: str, place: _Place, *, right: bool = False) -> Point:
    layer, position = place.layout.nodes[name]
    return place.x[int(layer)] + (place.widths[int(layer)] if right else 0.0), place.y(position)


def _bends(way: Sequence[Point], place: _Place) -> list[Point]:
    """Two points for each bend: an arrow passes a column straight."""
    found: list[Point] = []
    for layer, position in way[1:-1]:
        x, y = place.x[int(layer)], place.y(position)
        found += [(x, y), (x + place.widths[int(layer)], y)]
    return found


def _curve(points: Sequence[Point]) -> str:
    way = f"M{points[0][0]:.1f} {points[0][1]:.1f}"
    for (x0, y0), (x1, y1) in itertools.pairwise(points):
        half = (x1 - x0) / 2
        way += f" C{x0 + half:.1f} {y0:.1f} {x1 - half:.1f} {y1:.1f} {x1:.1f} {y1:.1f}"
    return way


def _label_place(points: Sequence[Point]) -> Point:
    (x0, y0), (x1, y1) = points[0], points[1]
    return (x0 + x1) / 2, (y0 + y1) / 2


def _loop(edge: Edge, place: _Place) -> tuple[str, Point, Point]:
    """Below everything, from the bottom of the one to the bottom of the other."""
    down = place.next_loop()
    ends: list[Point] = []
    for name, share in zip(edge, (0.65, 0.35), strict=True):
        layer, position = place.layout.nodes[name]
        x = place.x[int(layer)] + place.widths[int(layer)] * share
        ends.append((x, place.y(position) + place.heights[name] / 2))
    (x0, y0), (x1, y1) = ends
    way = f"M{x0:.1f} {y0:.1f} C{x0:.1f} {down:.1f} {x0:.1f} {down:.1f} {(x0 + x1) / 2:.1f} {down:.1f}"
    way += f" S{x1:.1f} {down:.1f} {x1:.1f} {y1:.1f}"
    return way, (x1, y1), ((x0 + x1) / 2, down)


def _text(text: str, x: float, y: float, kind: str, colour: str, *, bold: bool = False, halo: bool = False) -> str:
    more = ' font-weight="600"' if bold else ' font-size="12"'
    if halo:
        more += f' paint-order="stroke" stroke="{_PAPER}" stroke-width="3" stroke-linejoin="round"'
    shown = markup(text, MOST_CHARS)
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="middle" fill="{colour}"{more}>{shown}</text>'


def _height(box: Box) -> float:
    return 2 * _PAD + 10 + _LINE * len(box.lines) + (_BAR + 3 if box.fill is not None else 0)


def _box_width(box: Box) -> float:
    text = max(_BOLD / _CHAR * _text_width((box.name,)), _text_width(box.lines))
    return max(text + 2 * _PAD + (16 if box.kind == "spout" else 0), 72.0)


def _text_width(lines: Sequence[str]) -> float:
    """About: the font is the reader's."""
    return _CHAR * max((_columns(shortened(printable(line), MOST_CHARS)) for line in lines), default=0)


def _columns(text: str) -> int:
    return len(text) if text.isascii() else sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)
