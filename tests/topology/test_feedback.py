"""Feedback: the edges that close a cycle, and no others."""

from __future__ import annotations

import itertools
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from aiostorm import BasicBolt, Spout, TopologyBuilder
from aiostorm.topology import StreamId
from aiostorm.topology.feedback import edges_of, feedback_edges


class Source(Spout):
    outputs = "n"

    def next_tuple(self) -> None: ...


class Step(BasicBolt):
    outputs = "n"

    def execute(self, tup: Any, collector: Any) -> None: ...


def made(bolts: str, edges: list[str]) -> Any:
    """A topology of the spout s and these bolts; the edge `ab`: b reads a."""
    builder = TopologyBuilder()
    builder.set_spout("s", Source())
    for bolt in bolts:
        declarer = builder.set_bolt(bolt, Step())
        for source, target in edges:
            if target == bolt:
                declarer.shuffle_grouping(source)
    return builder.create_topology()


def shown(edges: Any) -> set[str]:
    assert all(stream.stream == "default" for stream, _ in edges)
    return {stream.component + target for stream, target in edges}


def test_edges_by_component_in_their_order() -> None:
    found = edges_of(made("ab", ["sa", "sb", "ab"]))
    assert found == {
        "s": [(StreamId("s", "default"), "a"), (StreamId("s", "default"), "b")],
        "a": [(StreamId("a", "default"), "b")],
        "b": [],
    }


def test_a_cycle_is_closed_by_its_last_edge() -> None:
    assert shown(feedback_edges(made("abc", ["sa", "ab", "bc", "ca"]))) == {"ca"}
    assert shown(feedback_edges(made("ab", ["sa", "ab", "ba", "bb"]))) == {"ba", "bb"}


def test_two_ways_to_a_bolt_are_no_cycle() -> None:
    assert feedback_edges(made("abcd", ["sa", "sb", "ac", "bc", "ad", "cd"])) == frozenset()


EDGES = ["".join(pair) for pair in itertools.product("abcd", repeat=2)]


@given(st.lists(st.sampled_from(EDGES), unique=True))
def test_without_them_nothing_is_reached_from_itself(edges: list[str]) -> None:
    found = feedback_edges(made("abcd", ["sa", "sb", "sc", "sd", *edges]))
    left = [edge for edge in edges if edge not in shown(found)]
    assert shown(found) <= set(edges)
    for start in "abcd":
        reached = {target for source, target in left if source == start}
        for _ in "abcd":
            reached |= {target for source, target in left if source in reached}
        assert start not in reached
    for edge in shown(found):  # each of them closes a cycle of the topology
        reached = {edge[1]}
        for _ in "abcd":
            reached |= {target for source, target in edges if source in reached}
        assert edge[0] in reached
