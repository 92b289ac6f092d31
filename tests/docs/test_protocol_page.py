"""docs/protocol.md lists the messages to tasks as the code encodes them: each number, and how many items each has."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from aiostorm.backpressure import BoltReading, Clear, Pace, PaceChange, Readings, SpoutReading
from aiostorm.cluster.tasks_here import TASK_MESSAGES
from aiostorm.transport import unpack_value

PAGE = Path(__file__).parents[2] / "docs" / "protocol.md"


CODECS = {kind: codec for codec in TASK_MESSAGES for kind in codec.types}


def items_in(text: str) -> list[str]:
    """The items of a list with commas, of which those in brackets are one."""
    while "(" in text:
        text = re.sub(r"\([^()]*\)", "", text)
    return text.partition(":")[0].split(",")


def table() -> dict[int, int]:
    """Number of a message → how many items its tuple has, as the page says."""
    rows = re.findall(r"^\| [A-Z ]+ \| (task, \d+.*) \|$", PAGE.read_text("utf-8"), re.MULTILINE)
    return {int(items[1]): len(items) for items in map(items_in, rows)}


def test_the_page_lists_every_message_to_tasks() -> None:
    assert sorted(table()) == sorted(number for codec in TASK_MESSAGES for number in codec.kinds)


@pytest.mark.parametrize("kind", CODECS, ids=lambda kind: str(kind.__name__))
def test_a_message_has_the_items_of_the_page(kind: type[Any]) -> None:
    packed = unpack_value(CODECS[kind].pack(3, SAMPLES.get(kind) or kind(*ARGUMENTS.get(kind.__name__, (1,)))))
    assert len(packed) == table()[packed[1]]


@pytest.mark.parametrize(("name", "at"), [("bolt", 4), ("spout", 5)])
def test_a_reading_has_the_items_of_the_page(name: str, at: int) -> None:
    (fields,) = re.findall(rf"A {name} reading is\s+\(([^)]*)\)", PAGE.read_text("utf-8"))
    packed = unpack_value(CODECS[Readings].pack(3, SAMPLES[Readings]))
    assert len(packed[at][0]) == len(fields.split(","))


SAMPLES: dict[type[Any], Any] = {
    Readings: Readings(1, 2.0, (BoltReading(1, 2, 3, 4),), (SpoutReading(1, 2),)),
    Pace: Pace(1, 2, PaceChange.HOLD, 3.0),
    Clear: Clear(),
}
ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "Init": (1, [(2, 3)]),
    "Acks": ([(2, 3)],),
    "Verdicts": ((),),
    "Aligned": (1, 2),
}
