"""The graph in the languages of other programs, and as a picture."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiostorm.topology import (
    Arrow,
    Box,
    ComponentSpec,
    ShuffleGrouping,
    StreamId,
    Subscription,
    Topology,
    draw_graph,
    markup,
    printable,
    shortened,
)

from .test_topology import Count, Lines, example

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = '<script>alert("1")</script>\x00\x1b[2J\u202e`#;\\&'


def hostile() -> Topology:
    spout = ComponentSpec(HOSTILE, "spout", Lines)
    inputs = (Subscription(StreamId(HOSTILE, HOSTILE), "b", "fields", (HOSTILE,), ShuffleGrouping),)
    return Topology({HOSTILE: spout, "b": ComponentSpec("b", "bolt", Count, inputs=inputs)}, HOSTILE)


def parsed(text: str) -> ET.Element:
    return ET.fromstring(text)  # noqa: S314 - it is ours


def texts(svg: str) -> list[str]:
    return ["".join(text.itertext()) for text in parsed(svg).iter(f"{SVG}text")]


def test_the_graph_for_graphviz() -> None:
    assert example().to_dot() == (
        'digraph "example" {\n'
        "  rankdir=LR;\n"
        '  node [fontname="sans-serif"];\n'
        '  c0 [label="lines", shape=ellipse];\n'
        '  c1 [label="count ×4", shape=box];\n'
        '  c0 -> c1 [label="fields (line)"];\n'
        '  c0 -> c1 [label="__dead_letter: local or shuffle"];\n'
        '  c0 -> c1 [label="asked: direct"];\n'
        "}"
    )


@pytest.mark.parametrize(("tasks", "label"), [(1, "b"), (2, "b ×2"), (3, "b ×3")])
def test_more_than_one_task_is_in_the_label(tasks: int, label: str) -> None:
    topology = Topology({"b": ComponentSpec("b", "bolt", Count, tasks)})
    assert f'["{label}"]' in topology.to_mermaid()
    assert f'[label="{label}", ' in topology.to_dot()
    assert texts(topology.to_svg()) == ["b", "1 task" if tasks == 1 else f"{tasks} tasks"]


def test_the_edges_for_mermaid_and_the_names_where_there_is_none() -> None:
    assert '\n  c0 -- "fields (line)" --> c1\n' in example().to_mermaid()
    assert '\n  c0 -- "asked: direct" --> c1' in example().to_mermaid()
    nameless = Topology({})
    assert nameless.to_dot().startswith('digraph "topology" {')
    assert "<title>topology</title>" in nameless.to_svg()


def test_the_graph_as_json() -> None:
    assert example().to_json().startswith('{\n  "topology": "example",\n  "resources": [],\n  "components": [\n    {\n')
    assert '"topology": "数える"' in Topology({}, "数える").to_json()
    document = json.loads(example().to_json())
    assert document["topology"] == "example"
    lines, count = document["components"]
    assert (lines["kind"], lines["tasks"]) == ("spout", 1)
    assert lines["outputs"]["asked"] == {"fields": ["q"], "direct": True}
    assert "__dead_letter" not in lines["outputs"]
    assert count["inputs"][0] == {"component": "lines", "stream": "default", "grouping": "fields", "fields": ["line"]}


def test_the_graph_as_a_picture() -> None:
    svg = example().to_svg()
    assert texts(svg) == [
        "fields (line)",
        "__dead_letter: local or shuffle",
        "asked: direct",
        "lines",
        "1 task",
        "count",
        "4 tasks",
    ]
    root = parsed(svg)
    assert [child.text for child in root[:2]] == ["example", "2 components. lines to count"]
    assert root.get("role") == "img"


def test_a_notebook_gets_the_picture_and_the_text() -> None:
    bundle = example()._repr_mimebundle_()
    assert set(bundle) == {"text/plain", "image/svg+xml", "text/vnd.mermaid"}
    assert bundle["text/plain"] == example().describe()
    assert set(example()._repr_mimebundle_(include={"text/plain", "text/html"})) == {"text/plain"}
    assert set(example()._repr_mimebundle_(exclude=["image/svg+xml"])) == {"text/plain", "text/vnd.mermaid"}


def test_hostile_names_stay_text_in_every_language() -> None:
    topology = hostile()
    svg = topology.to_svg()
    assert {child.tag for child in parsed(svg).iter()} <= {
        SVG + name for name in ("svg", "title", "desc", "rect", "g", "path", "text")
    }
    for text in (svg, topology.to_mermaid(), topology.to_dot(), topology.describe()):
        assert all(line.isprintable() for line in text.splitlines()), text
    assert "<script" not in svg + topology.to_mermaid()
    assert '\\"1\\"' in topology.to_dot()
    assert '"' not in topology.to_mermaid().split('(["')[1].split('"])')[0]
    assert json.loads(topology.to_json())["topology"] == HOSTILE


def test_system_components_are_not_drawn() -> None:
    inputs = (Subscription(StreamId("__system", "__tick"), "b", "all", (), ShuffleGrouping),)
    topology = Topology({"b": ComponentSpec("b", "bolt", Count, inputs=inputs)})
    assert texts(topology.to_svg()) == ["b", "1 task"]
    assert "-->" not in topology.to_mermaid()


def test_a_cycle_is_drawn_below_and_dashed() -> None:
    boxes = [Box("s", "spout"), Box("a", "bolt"), Box("b", "bolt")]
    arrows = [Arrow("s", "a"), Arrow("a", "b"), Arrow("b", "a", ("again",)), Arrow("b", "b")]
    svg = draw_graph("loop", boxes, arrows)
    assert svg.count("stroke-dasharray") == 2
    root = parsed(svg)
    lowest = max(float(rect.get("y", 0)) + float(rect.get("height", 0)) for rect in root.iter(f"{SVG}rect"))
    assert float(root.get("height", 0)) >= lowest


@pytest.mark.parametrize(("fill", "width"), [(-1.0, 0.0), (0.5, 0.5), (7.0, 1.0)])
def test_a_bar_is_as_long_as_the_mailbox_is_full(fill: float, width: float) -> None:
    root = parsed(draw_graph("one", [Box("b", "bolt", (), fill, "blocked")], []))
    bars = {rect.get("class"): float(rect.get("width", 0)) for rect in root.iter(f"{SVG}rect")}
    assert bars["blocked"] == pytest.approx(bars["track"] * width, abs=0.1)


def test_an_empty_graph_is_a_picture() -> None:
    assert parsed(Topology({}).to_svg()).get("width") == "32"


def test_long_names_are_cut_and_are_whole_in_the_tooltip() -> None:
    svg = draw_graph("one", [Box("n" * 300, "bolt")], [])
    assert texts(svg) == ["n" * 39 + "…"]
    assert "n" * 300 in svg


@given(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7), st.text(max_size=8)), max_size=20), st.text())
def test_any_graph_is_well_formed_and_inside_its_frame(edges: list[tuple[int, int, str]], title: str) -> None:
    boxes = [Box(f"c{i}", "spout" if i < 2 else "bolt", ("x",)) for i in range(8)]
    root = parsed(draw_graph(title, boxes, [Arrow(f"c{a}", f"c{b}", (text,)) for a, b, text in edges]))
    width, height = float(root.get("width", 0)), float(root.get("height", 0))
    for rect in root.iter(f"{SVG}rect"):
        assert 0 <= float(rect.get("x", 0)) <= float(rect.get("x", 0)) + float(rect.get("width", 0)) <= width
        assert 0 <= float(rect.get("y", 0)) <= float(rect.get("y", 0)) + float(rect.get("height", 0)) <= height


@given(st.text())
def test_a_shown_text_has_no_markup(text: str) -> None:
    shown = markup(text)
    assert shown.isprintable()
    assert not set(shown) & set("<>\"'")
    assert "".join(parsed(f"<a>{shown}</a>").itertext()) == printable(text)
    assert len(shortened(text, 5)) <= 5


@pytest.mark.parametrize(("text", "cut"), [("", ""), ("abcd", "abcd"), ("abcde", "abcde"), ("abcdef", "abcd…")])
def test_a_text_of_just_that_many_characters_is_whole(text: str, cut: str) -> None:
    assert shortened(text, 5) == cut
    assert markup(text, 5) == cut
