"""SVG: two pictures, as they were looked at and found good. `python -m tests.topology.test_svg` writes them again."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from aiostorm.topology.svg import Arrow, Box, draw_graph

PICTURES = Path(__file__).with_name("pictures")

ALL = (
    [
        Box("orders", "spout", ("2 tasks", "1,200/s")),
        Box("a name that is longer than forty characters, by far", "bolt", ("1 task",), 0.25, "calm"),
        Box("数える", "bolt", ("4 tasks",), 0.6, "filling"),
        Box('<store> & "co"', "bolt", (), 1.5, "blocked"),
        Box("watch", "bolt"),
    ],
    [
        Arrow("orders", "a name that is longer than forty characters, by far", ("shuffle",)),
        Arrow("orders", "a name that is longer than forty characters, by far", ("fixes: fields (order, customer)",)),
        Arrow("a name that is longer than forty characters, by far", "数える", ("fields (word)",)),
        Arrow("数える", '<store> & "co"'),
        Arrow("orders", '<store> & "co"', ("all",)),
        Arrow('<store> & "co"', "数える", ("back",)),
        Arrow("watch", "watch", ("itself",)),
        Arrow("orders", "watch"),
    ],
)
LINE = [Box("a", "spout", ("1 task",)), Box("b", "bolt", ("1 task",))], [Arrow("a", "b", ("x",))]
GIVEN: dict[str, tuple[str, list[Box], list[Arrow]]] = {
    "all": ("Everything\nat once", *ALL),
    "line": ("line", *LINE),
    "empty": ("nothing", [], []),
}


@pytest.mark.parametrize("name", GIVEN)
def test_the_picture_is_the_one_that_was_looked_at(name: str) -> None:
    assert draw_graph(*GIVEN[name]) + "\n" == (PICTURES / f"{name}.svg").read_text(encoding="utf-8")


def test_wide_characters_are_as_wide_as_two() -> None:
    def width(name: str) -> str:
        found = re.search(r'<rect x="[^"]*" y="[^"]*" width="([^"]*)"', draw_graph("t", [Box(name, "bolt")], []))
        assert found is not None
        return found[1]

    assert width("語" * 10) == width("Ｗ" * 10) == width("x" * 20)
    assert width("é" * 20) == width("x" * 20), "not ASCII, and as wide as one"
    assert width("x" * 10) != width("x" * 20)


if __name__ == "__main__":
    for name, given in GIVEN.items():
        (PICTURES / f"{name}.svg").write_text(draw_graph(*given) + "\n", encoding="utf-8")
