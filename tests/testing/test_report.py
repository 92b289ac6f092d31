"""The report of a failing seed: its lines, and commands that can be pasted into a shell."""

from __future__ import annotations

import shlex
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiostorm.testing.simulation.report import LAST_EVENTS, commands, quoted, script_lines, trace_lines

SCRIPT: Any = [f"fault {n}" for n in range(12)]


class Events:
    """A trace with so many events."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.asked: list[int] = []

    def text(self, last: int) -> str:
        self.asked.append(last)
        return "one\ntwo"


def test_the_faults_of_a_script() -> None:
    assert script_lines([], None) == ["no faults"]
    assert script_lines([], {1}) == ["no faults"]
    head, *lines = script_lines(SCRIPT, None)
    assert head == "fault script: number, true second, kind"
    assert (lines[0], lines[11], len(lines)) == ("   [0] fault 0", "  [11] fault 11", 12)
    assert script_lines(SCRIPT, {11, 3}) == [
        "fault script (2 of 12): number, true second, kind",
        "   [3] fault 3",
        "  [11] fault 11",
    ]
    assert script_lines(SCRIPT, set()) == ["fault script (0 of 12): none of these faults is needed"]


def test_the_end_of_a_trace() -> None:
    nothing: Any = Events(0)
    assert trace_lines(nothing) == ["nothing has happened: the test has not run a topology"]
    some: Any = Events(9)
    assert trace_lines(some) == ["the end of the trace: true second, who -> to whom: what", "one", "two"]
    trace_lines(some, 3)
    assert some.asked == [LAST_EVENTS, 3] == [40, 3]


@pytest.mark.parametrize(
    ("only", "option"),
    [(None, ""), ({11, 3}, " --simulation-only 3,11"), (set(), " --simulation-only none")],
)
def test_the_commands(only: Any, option: str) -> None:
    again = f'python -m pytest "a.py::test[1]"{option}'
    lines = commands("a.py::test[1]", only, shrinks=True)
    assert lines == [
        f"run it again:     {again}",
        f"the whole trace:  {again} --simulation-trace trace.txt",
        f"a diagram:        {again} --simulation-diagram trace.svg",
        f"fewer faults:     {again} --simulation-shrink",
    ]
    assert commands("a.py::test[1]", only, shrinks=False) == lines[:3]


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1))
def test_a_quoted_text_is_one_word(text: str) -> None:
    assert shlex.split(quoted(text)) == [text]


@pytest.mark.parametrize("text", ['a"b', "a$b", "a`b", "a\\b", "a!b", "a%b", "a\nb"])
def test_what_shells_expand_is_not_in_double_quotes(text: str) -> None:
    assert not quoted(text).startswith('"')
    assert quoted("a b'c") == '"a b\'c"'
