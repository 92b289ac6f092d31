"""SVG: two pictures, as they were looked at and found good. `python -m tests.topology.test_svg` writes them again."""

from __future__ import annotations

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
DRAWN = {
    "all": draw_graph("Everything\nat once", *ALL),
    "line": draw_graph(
        "line", [Box("a", "spout", ("1 task",)), Box("b", "bolt", ("1 task",))], [Arrow("a", "b", ("x",))]
    ),
    "empty": draw_graph("nothing", [], []),
}


@pytest.mark.parametrize("name", DRAWN)
def test_the_picture_is_the_one_that_was_looked_at(name: str) -> None:
    assert DRAWN[name] + "\n" == (PICTURES / f"{name}.svg").read_text(encoding="utf-8")


if __name__ == "__main__":
    for name, text in DRAWN.items():
        (PICTURES / f"{name}.svg").write_text(text + "\n", encoding="utf-8")
