"""The picture of a sequence diagram: where each thing is, to the pixel."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from typing import Any

from aiostorm.testing.simulation.diagram import Diagram, DiagramStep
from aiostorm.testing.simulation.svg import svg

SPACE = "{http://www.w3.org/2000/svg}"
STEPS = (
    DiagramStep(1.0, "send", 0, 1, "to the right"),
    DiagramStep(1.5, "send", 2, 0, "to the left"),
    DiagramStep(2.0, "lost", 1, 2, "lost"),
    DiagramStep(2.5, "lost", 2, 1, "lost, too"),
    DiagramStep(3.0, "send", 1, 1, "to itself"),
    DiagramStep(3.5, "note", 0, None, "a note at the left edge, which it does not pass"),
    DiagramStep(4.0, "note", 1, None, "a note"),
    DiagramStep(4.5, "note", 2, None, "a note at the right edge, which it does not pass"),
    DiagramStep(5.0, "note", None, None, "over all"),
)


def drawn(diagram: Diagram) -> list[tuple[str, dict[str, str]]]:
    """Each element with its attributes; of a text its content, too."""
    tree = ET.fromstring(svg(diagram))  # noqa: S314
    found = [(tree.tag.removeprefix(SPACE), dict(tree.attrib))]
    for element in tree:
        if element.tag != f"{SPACE}style":
            text = {} if element.text is None else {"text": element.text}
            found.append((element.tag.removeprefix(SPACE), {**element.attrib, **text}))
    return found


def of(kind: str, diagram: Diagram, **wanted: str) -> list[dict[str, str]]:
    return [each for name, each in drawn(diagram) if name == kind and wanted.items() <= each.items()]


def numbers(each: dict[str, str], *names: str) -> list[float]:
    return [float(each[name]) for name in names]


THREE = Diagram(("a", "b", "c"), STEPS, 0)


def test_the_size_is_that_of_the_columns_and_the_rows() -> None:
    (_, whole), *_ = drawn(THREE)
    assert (whole["width"], whole["height"], whole["viewBox"]) == ("570", "390", "0 0 570 390")
    (_, nothing), *_ = drawn(Diagram((), (), 0))
    assert (nothing["width"], nothing["height"]) == ("190", "120")
    long = DiagramStep(1.0, "send", 0, 0, "x" * 91)  # 100 characters with its time
    (_, wide), *_ = drawn(Diagram(("a",), (long,), 0))
    assert (wide["width"], wide["height"]) == ("810", "150")
    [ground] = of("rect", THREE, fill="#fff")
    assert (ground["width"], ground["height"]) == ("570", "390")


def test_each_name_has_a_column() -> None:
    assert [numbers(each, "x1", "x2", "y1", "y2") for each in of("line", THREE, **{"class": "axis"})] == [
        [95, 95, 42, 375],
        [285, 285, 42, 375],
        [475, 475, 42, 375],
    ]
    assert [numbers(each, "x", "y", "width", "height") for each in of("rect", THREE, **{"class": "who"})] == [
        [10, 14, 170, 28],
        [200, 14, 170, 28],
        [390, 14, 170, 28],
    ]
    names = of("text", THREE, **{"class": "name"})
    assert [(each["text"], *numbers(each, "x", "y")) for each in names] == [
        ("a", 95, 32),
        ("b", 285, 32),
        ("c", 475, 32),
    ]


def test_arrows() -> None:
    lines = of("line", THREE, **{"class": "send"}) + of("line", THREE, **{"class": "lost"})
    assert [numbers(each, "x1", "x2", "y1", "y2") for each in lines] == [
        [95, 285, 105, 105],
        [475, 95, 135, 135],
        [285, 325, 225, 225],
        [285, 475, 165, 165],
        [475, 285, 195, 195],
    ]
    heads = [each["d"] for each in of("path", THREE)]
    assert heads == [
        "M285,105 l-8,-4 v8 z",
        "M95,135 l8,-4 v8 z",
        "M462,160 l10,10 m0,-10 l-10,10",
        "M288,190 l10,10 m0,-10 l-10,10",
        "M325,225 l-8,-4 v8 z",
    ]


def test_the_text_of_an_arrow_is_above_it() -> None:
    texts = [each for each in of("text", THREE) if "class" not in each][:5]
    assert [(each["text"], *numbers(each, "x", "y")) for each in texts] == [
        ("1.000 s, to the right", 105, 101),
        ("1.500 s, to the left", 105, 131),
        ("2.000 s, lost", 295, 161),
        ("2.500 s, lost, too", 303, 191),
        ("3.000 s, to itself", 295, 221),
    ]


def test_notes_stay_inside() -> None:
    notes = of("rect", THREE, **{"class": "note"}) + of("rect", THREE, **{"class": "done"})
    assert [numbers(each, "x", "y", "width", "height") for each in notes] == [
        [4, 242, 361, 19],
        [232, 272, 107, 19],
        [199, 302, 367, 19],
        [4, 332, 562, 19],
    ]
    texts = [each for each in of("text", THREE) if "class" not in each][5:]
    assert [numbers(each, "x", "y") for each in texts] == [[11, 256], [239, 286], [206, 316], [11, 346]]


def test_what_is_left_out_is_said() -> None:
    [text] = of("text", Diagram(("a",), (), 7), x="8")
    assert (text["text"], text["y"]) == ("7 events are left out", "75")


def test_texts_are_cut_and_have_no_odd_characters() -> None:
    step = DiagramStep(1.0, "send", 0, 0, "x" * 300)
    [name, text] = of("text", Diagram(("n" * 27,), (step,), 0))
    assert name["text"] == "n" * 25 + "…"
    assert (len(text["text"]), text["text"][-2:]) == (200, "x…")
    step = DiagramStep(1.0, "send", 0, 0, "x" * 191)
    [name, text] = of("text", Diagram(("n" * 26,), (step,), 0))
    assert name["text"] == "n" * 26
    assert len(text["text"]) == 200
    assert not text["text"].endswith("…")
    picture: Any = svg(Diagram(("<a>\n&",), (), 0))
    assert re.search(r">&lt;a&gt; &amp;<", picture)
