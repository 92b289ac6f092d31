"""Sequence diagrams of traces: what is chosen, and that any text is valid Mermaid and valid SVG."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiostorm.testing.simulation import Event, sequence_diagram
from aiostorm.testing.simulation.diagram import Diagram, diagram_of, escaped, mermaid
from aiostorm.testing.simulation.svg import svg

# What Mermaid's grammar takes, and no more than we need of it.
TEXT = r"(?:[^\W_ßﬂ]|[ .,_/()='+*?!|~-]|#\d+;)+"
PARTICIPANT = re.compile(rf"    participant p(\d+) as ({TEXT})")
ARROW = re.compile(rf"    p(\d+)(->>|-x)p(\d+): ({TEXT})")
NOTE = re.compile(rf"    Note over p(\d+)(?:,p(\d+))?: ({TEXT})")
KEYWORDS = re.compile(r"\bend\b", re.IGNORECASE)

KINDS = ("send", "lost", "fault", "process", "outside", "problem")
NASTY = st.sampled_from(
    [
        "a;b",
        'say "x"',
        "[x]{y}(z)",
        "a: b",
        "wrap: x",
        "end",
        "The END.",
        "#35;",
        "%% c",
        "%%{init}%%",
        "é ß ﬂ° ¶",
        "style a:b #c;",
        "<br/>",
        "a->>b: c",
        "-x",
        "activate p0",
        "日本 🙂",
        "\x00\n\r\t\x1b",
        "\u2028\ud800",
        "",
        "$$",
        "&amp;",
    ]
)
TEXTS = NASTY | st.text(max_size=20) | st.tuples(NASTY, NASTY).map("".join)


@st.composite
def events(draw: st.DrawFn) -> list[Event]:
    made = []
    for i in range(draw(st.integers(0, 8))):
        kind = draw(st.sampled_from(KINDS))
        target = draw(TEXTS) if kind in ("send", "lost") else ""
        made.append(Event(i / 4, kind, draw(TEXTS), target, draw(TEXTS), draw(st.none() | TEXTS)))
    return made


def grammar(text: str) -> tuple[list[str], list[str]]:
    """(participants, steps) of a diagram, which is valid."""
    head, *lines = text.removesuffix("\n").split("\n")
    assert head == "sequenceDiagram"
    names: list[str] = []
    steps: list[str] = []
    for line in lines:
        assert not KEYWORDS.search(line), line
        if named := PARTICIPANT.fullmatch(line):
            assert int(named[1]) == len(names)
            assert not steps, "participants come first"
            names.append(named[2])
            continue
        step = ARROW.fullmatch(line) or NOTE.fullmatch(line)
        assert step, line
        assert all(int(place) < len(names) for place in step.groups()[:-1] if place and place.isdecimal())
        steps.append(line)
    assert names
    return names, steps


@given(events())
def test_any_text_is_valid(made: list[Event]) -> None:
    diagram = diagram_of(made)
    grammar(mermaid(diagram))
    ET.fromstring(svg(diagram))  # noqa: S314 - what we have just made


@given(TEXTS)
def test_escaped_text_can_be_unescaped(text: str) -> None:
    read = re.sub(r"#(\d+);", lambda number: chr(int(number[1])), escaped(text))
    assert read == ("".join(char for char in " ".join(text.split()) or "-" if char.isprintable()) or "-")


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("plain (1, 'a') = ok?", "plain (1, 'a') = ok?"),
        ("a;b", "a#59;b"),
        ("#1;", "#35;1#59;"),
        ("[x]: {y}", "#91;x#93;#58; #123;y#125;"),
        ("the end", "the #101;nd"),
        ("END of it", "#69;ND of it"),
        ("ends, weekend", "ends, weekend"),
        ("größer", "grö#223;er"),
        ("日本", "日本"),
        ("two\nlines", "two lines"),
        ("", "-"),
    ],
)
def test_escaped(text: str, written: str) -> None:
    assert escaped(text) == written


def send(at_s: float, source: str, target: str, what: str = "1 of stream 'default'", kind: str = "send") -> Event:
    return Event(at_s, kind, source, target, what)


TRACE = [
    Event(0.0, "process", "storm", "", "starts (incarnation 1)"),
    send(1.0, "words[1]", "split[2]"),
    send(1.0, "split[2]", "__acker[3]", "acks in 1 trees", kind="lost"),
    Event(2.0, "fault", "storm", "", "is killed"),
    Event(2.5, "outside", "source 0", "", "message 1 fails: timeout", "no; reason"),
    send(3.0, "split[2]", "split[2]"),
]


def test_a_trace() -> None:
    assert sequence_diagram(TRACE) == (
        "sequenceDiagram\n"
        "    participant p0 as words#91;1#93;\n"
        "    participant p1 as split#91;2#93;\n"
        "    participant p2 as __acker#91;3#93;\n"
        "    participant p3 as source 0\n"
        "    Note over p0,p3: 0.000 s, storm starts (incarnation 1)\n"
        "    p0->>p1: 1.000 s, 1 of stream 'default'\n"
        "    p1-xp2: 1.000 s, acks in 1 trees\n"
        "    Note over p0,p3: 2.000 s, storm is killed\n"
        "    Note over p3: 2.500 s, message 1 fails#58; timeout 'no#59; reason'\n"
        "    p1->>p1: 3.000 s, 1 of stream 'default'\n"
    )


def test_an_empty_trace() -> None:
    assert grammar(sequence_diagram([])) == (["no participants"], ["    Note over p0: nothing has happened"])
    ET.fromstring(svg(diagram_of([])))  # noqa: S314


def test_the_last_steps_and_the_busiest_names_are_drawn() -> None:
    made = [send(i, "a", "b") for i in range(10)] + [send(10, "c", "d")]
    diagram = diagram_of(made, most_names=2, most_steps=4)
    assert diagram.names == ("a", "b")
    assert [step.at_s for step in diagram.steps] == [6, 7, 8, 9]
    assert diagram.left_out == 7
    assert "    Note over p0,p1: 7 events are left out" in mermaid(diagram)
    assert "7 events are left out" in svg(diagram)
    assert diagram_of(made, most_steps=0).steps == ()


def test_names_and_a_time_are_chosen() -> None:
    made = [send(i, "a", "b" if i % 2 else "c") for i in range(10)]
    assert [step.at_s for step in diagram_of(made, names=["a", "b"], begin_s=2, end_s=7).steps] == [3, 5, 7]


def test_the_steps_around_a_message_can_be_chosen() -> None:
    made = [Event(float(i), "send", "a", "b", "1 row", (f"w{i}",)) for i in range(10)]
    made.insert(6, send(5.2, "b", "c", "acks"))
    diagram = diagram_of(made, about="'w5'")
    assert [step.text for step in diagram.steps] == ["1 row ('w5',)", "acks"]
    assert [step.at_s for step in diagram_of(made, about="'w5'", around_s=1).steps] == [4, 5, 5.2, 6]
    assert diagram_of(made, about="nothing like it") == Diagram((), (), 11)
    made.append(Event(60.0, "fault", "storm", "", "is killed"))
    assert [step.at_s for step in diagram_of(made, about="'w5'").steps] == [5, 5.2, 60], "faults are always shown"


def test_long_texts_are_cut() -> None:
    [step] = diagram_of([send(0, "a", "b", "x" * 1000)]).steps
    assert len(step.text) == 80
    assert step.text.endswith(" …")
    _, steps = grammar(sequence_diagram([send(0, "n" * 1000, "b", "x" * 1000)]))
    assert len(steps[0]) < 200
