"""Plans: task ids, the order of bolts, and the edges that close a cycle."""

from __future__ import annotations

from graphlib import TopologicalSorter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiostorm.topology import (
    ACKER_COMPONENT,
    BasicBolt,
    Config,
    Plan,
    Spout,
    StreamId,
    Topology,
    TopologyBuilder,
    make_plan,
)


class Source(Spout):
    outputs = "n"

    def next_tuple(self) -> None: ...


class Through(BasicBolt):
    outputs = {"default": "n", "again": "n"}  # noqa: RUF012

    def execute(self, tup: Any, collector: Any) -> None: ...


def build(edges: list[tuple[str, str]], *, spouts: int = 1, parallelism: int = 1) -> Topology:
    """Spouts s0, s1, … and the bolts that the edges name, as they appear; "b:again" is a stream of b."""
    builder = TopologyBuilder()
    for i in range(spouts):
        builder.set_spout(f"s{i}", Source, parallelism)
    declarers: dict[str, Any] = {}
    for source, target in edges:
        for name in (source.partition(":")[0], target):
            if name not in declarers and not name.startswith("s"):
                declarers[name] = builder.set_bolt(name, Through, parallelism)
    for source, target in edges:
        component, _, stream = source.partition(":")
        declarers[target].shuffle_grouping(component, stream=stream or "default")
    return builder.create_topology()


def test_task_ids_count_from_one_in_the_order_of_declaration_ackers_last() -> None:
    topology = build([("s0", "a"), ("a", "b")], parallelism=2)
    plan = make_plan(topology, Config(acker_executors=2))
    assert dict(plan.tasks_of) == {"s0": (1, 2), "a": (3, 4), "b": (5, 6), ACKER_COMPONENT: (7, 8)}
    assert [(task.task_id, task.component, task.index) for task in plan.tasks[2:4]] == [(3, "a", 0), (4, "a", 1)]
    assert [task.task_id for task in plan.tasks] == list(range(1, 9))
    assert plan.master == 9, "the id after the last task"


@pytest.mark.parametrize(("config", "ackers"), [(Config(), 1), (Config(workers=3), 3), (Config(acker_executors=0), 0)])
def test_ackers_are_one_per_worker_unless_set(config: Config, ackers: int) -> None:
    assert len(make_plan(build([("s0", "a")]), config).tasks_of[ACKER_COMPONENT]) == ackers


def test_parallelism_is_capped() -> None:
    plan = make_plan(build([("s0", "a")], parallelism=9), Config(max_task_parallelism=4))
    assert (len(plan.tasks_of["s0"]), len(plan.tasks_of["a"])) == (4, 4)


def test_a_self_loop_and_a_long_way_back_are_feedback() -> None:
    edges = [("s0", "a"), ("a:again", "a"), ("a", "b"), ("b", "c"), ("c:again", "a"), ("c", "b")]
    plan = make_plan(build(edges), Config())
    assert plan.feedback == {(StreamId("a", "again"), "a"), (StreamId("c", "again"), "a"), (StreamId("c"), "b")}
    assert plan.order == ("a", "b", "c")


def test_order_is_by_declaration_where_the_graph_leaves_a_choice() -> None:
    plan = make_plan(build([("s0", "d"), ("s0", "a"), ("a", "c"), ("s0", "b"), ("d", "e")]), Config())
    assert plan.order == ("d", "a", "c", "b", "e")
    assert plan.feedback == frozenset()


def test_a_long_chain_needs_no_deep_stack() -> None:
    chain = [("s0", "b0"), *((f"b{i}", f"b{i + 1}") for i in range(3000))]
    plan = make_plan(build(chain), Config())
    assert plan.order[-1] == "b3000"


edges = st.lists(
    st.tuples(st.integers(0, 7), st.sampled_from(["", ":again"]), st.integers(0, 7)), unique=True, max_size=20
)


def check(plan: Plan, topology: Topology) -> None:
    every = {(s.source, s.consumer) for spec in topology.bolts for s in spec.inputs}
    assert plan.feedback <= every
    graph: dict[str, set[str]] = {spec.id: set() for spec in topology.bolts}
    for source, consumer in every - plan.feedback:
        graph[consumer].add(source.component)
    tuple(TopologicalSorter(graph).static_order())  # raises CycleError if a cycle is left
    assert sorted(plan.order) == sorted(spec.id for spec in topology.bolts)
    place = {bolt: i for i, bolt in enumerate(plan.order)}
    for consumer, sources in graph.items():
        assert all(place[source] < place[consumer] for source in sources if source in place)


@given(edges, st.integers(1, 3))
def test_without_feedback_no_cycle_is_left(drawn: list[tuple[int, str, int]], spouts: int) -> None:
    graph = [(f"s{i % spouts}", f"b{i}") for i in range(8)] + [(f"b{a}{stream}", f"b{b}") for a, stream, b in drawn]
    topology = build(graph, spouts=spouts)
    plan = make_plan(topology, Config())
    check(plan, topology)
    assert plan == make_plan(build(graph, spouts=spouts), Config())


@given(edges)
def test_a_graph_without_cycles_has_no_feedback(drawn: list[tuple[int, str, int]]) -> None:
    forward = [(f"b{a}{stream}", f"b{b}") for a, stream, b in drawn if a < b]
    topology = build([("s0", f"b{i}") for i in range(8)] + forward)
    plan = make_plan(topology, Config())
    check(plan, topology)
    assert plan.feedback == frozenset()


@given(edges)
def test_each_feedback_edge_closes_a_cycle(drawn: list[tuple[int, str, int]]) -> None:
    topology = build([("s0", f"b{i}") for i in range(8)] + [(f"b{a}{stream}", f"b{b}") for a, stream, b in drawn])
    plan = make_plan(topology, Config())
    place = {bolt: i for i, bolt in enumerate(plan.order)}
    ahead: dict[str, set[str]] = {bolt: {bolt} for bolt in plan.order}
    for bolt in reversed(plan.order):
        for spec in topology.bolts:
            for s in spec.inputs:
                if s.source.component == bolt and (s.source, spec.id) not in plan.feedback:
                    ahead[bolt] |= ahead[spec.id]
    for source, consumer in plan.feedback:
        assert place[consumer] <= place[source.component]
        assert source.component in ahead[consumer]
