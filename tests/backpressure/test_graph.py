"""Graph: from which spouts the tuples of a bolt come, and which bolts get theirs where there is free capacity."""

from __future__ import annotations

from aiostorm import TopologyBuilder
from aiostorm.backpressure import Graph

from ..conformance.parts import Identity, Words


def test_the_graph_of_a_topology() -> None:
    builder = TopologyBuilder()
    builder.set_spout("a", Words)
    builder.set_spout("b", Words)
    builder.set_bolt("left", Identity).shuffle_grouping("a").local_or_shuffle_grouping("b")
    builder.set_bolt("mixed", Identity).none_grouping("a").fields_grouping("b", "word")
    builder.set_bolt("last", Identity).partial_key_grouping("left", "value").local_first_grouping("mixed")
    builder.set_bolt("one", Identity).global_grouping("last")
    builder.set_bolt("every", Identity).all_grouping("b")
    graph = Graph.of(builder.create_topology())
    assert graph.balanced == {"left", "last"}
    assert graph.inputs == {
        "left": {"a", "b"},
        "mixed": {"a", "b"},
        "last": {"left", "mixed"},
        "one": {"last"},
        "every": {"b"},
    }
    assert graph.sources == {
        "left": {"a", "b"},
        "mixed": {"a", "b"},
        "last": {"a", "b"},
        "one": {"a", "b"},
        "every": {"b"},
    }
