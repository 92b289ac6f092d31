"""The drawing: layers, order and positions, for any graph."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

import aiostorm
from aiostorm.topology import layout as module
from aiostorm.topology.layout import BEND, Layout, layered


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[str], list[tuple[str, str]]]:
    nodes = [f"n{i}" for i in range(draw(st.integers(1, 12)))]
    return nodes, draw(st.lists(st.tuples(st.sampled_from(nodes), st.sampled_from(nodes)), max_size=30))


def near(layout: Layout) -> float:
    """The least distance of two nodes of one layer."""
    rows: dict[float, list[float]] = {}
    for layer, position in layout.nodes.values():
        rows.setdefault(layer, []).append(position)
    pairs = [(b - a) for row in map(sorted, rows.values()) for a, b in pairwise(row)]
    return min(pairs, default=1.0)


@given(graphs())
def test_any_graph_is_drawn(graph):
    nodes, edges = graph
    layout = layered(nodes, edges)
    assert set(layout.nodes) == set(nodes)
    assert set(layout.ways) | layout.back == set(edges)
    assert not set(layout.ways) & layout.back
    assert near(layout) >= 1 - 0.01  # positions are rounded
    assert min(position for _, position in layout.nodes.values()) >= 0
    assert max(layer for layer, _ in layout.nodes.values()) == layout.layers - 1


@given(graphs())
def test_ways_lead_down_layer_by_layer(graph):
    layout = layered(*graph)
    for (source, target), way in layout.ways.items():
        assert way[0] == layout.nodes[source]
        assert way[-1] == layout.nodes[target]
        layers = [layer for layer, _ in way]
        assert layers == [layers[0] + i for i in range(len(way))]
        assert len(way) > 1


@given(graphs())
def test_bends_keep_clear_of_nodes(graph):
    layout = layered(*graph)
    for way in layout.ways.values():
        for layer, position in way[1:-1]:
            near_by = [p for one, p in layout.nodes.values() if one == layer]
            assert all(abs(position - p) >= BEND - 0.01 for p in near_by)


@given(graphs())
def test_without_back_edges_there_is_no_cycle(graph):
    nodes, edges = graph
    layout = layered(nodes, edges)
    assert all(layout.nodes[a][0] < layout.nodes[b][0] for a, b in edges if (a, b) not in layout.back)


@given(graphs())
def test_the_same_graph_gives_the_same_picture(graph):
    assert layered(*graph) == layered(*graph)


def test_does_not_depend_on_hash_seeds():
    program = (
        "from aiostorm.topology.layout import layered\n"
        "nodes = [f'c{i}' for i in range(9)]\n"
        "print(layered(nodes, [(nodes[i], nodes[(i * i + 3) % 9]) for i in range(9)] + [('c0', 'c8')]).ways)\n"
    )
    given_out = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": str(Path(aiostorm.__file__).parents[1])},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(given_out) == 1


def test_a_chain_is_a_line():
    layout = layered(["a", "b", "c"], [("a", "b"), ("b", "c")])
    assert layout.nodes == {"a": (0, 0), "b": (1, 0), "c": (2, 0)}


def test_a_cycle_is_drawn_with_a_back_edge():
    layout = layered(["s", "a", "b"], [("s", "a"), ("a", "b"), ("b", "a"), ("b", "b")])
    assert layout.back == {("b", "a"), ("b", "b")}
    assert layout.layers == 3


def test_crossings_are_removed():
    layout = layered(["a", "b", "x", "y"], [("a", "y"), ("b", "x")])
    order = [layout.nodes[name][1] for name in ("a", "b")]
    below = [layout.nodes[name][1] for name in ("y", "x")]
    assert (order[0] < order[1]) == (below[0] < below[1])


def test_a_picture_with_bends_is_always_this_one():
    edges = [("e", "f"), ("b", "e"), ("d", "e"), ("c", "f"), ("a", "e"), ("c", "a")]
    layout = layered(["a", "b", "c", "d", "e", "f"], edges)
    assert layout.nodes == {
        "a": (1.0, 0.75),
        "b": (0.0, 0.0),
        "c": (0.0, 1.125),
        "d": (0.0, 2.25),
        "e": (2.0, 0.938),
        "f": (3.0, 1.312),
    }
    assert layout.ways["b", "e"] == ((0.0, 0.0), (1.0, 0.0), (2.0, 0.938))
    assert layout.ways["d", "e"] == ((0.0, 2.25), (1.0, 2.25), (2.0, 0.938))
    assert layout.ways["c", "f"] == ((0.0, 1.125), (1.0, 1.5), (2.0, 1.688), (3.0, 1.312))
    assert (layout.layers, layout.width, layout.back) == (4, 2.25, frozenset())


def test_a_large_graph_is_sorted_once(monkeypatch):
    monkeypatch.setattr(module, "MANY", 3)
    test_crossings_are_removed()


def test_a_hundred_components_are_drawn():
    nodes = [f"n{i}" for i in range(100)]
    edges = [(nodes[i], nodes[j]) for i in range(100) for j in range(i + 1, min(100, i + 4))]
    assert len(layered(nodes, edges).ways) == len(edges)
