"""Placement: what holds for every topology and every number of workers."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiostorm import BasicBolt, Config, Spout, Topology, TopologyBuilder
from aiostorm.cluster.scheduler import WorkerInfo, place
from aiostorm.topology import ACKER_COMPONENT, Plan, make_plan


class Source(Spout):
    outputs = "n"

    def next_tuple(self) -> None:
        """Nothing."""


class Step(BasicBolt):
    outputs = "n"

    def execute(self, tup: Any, collector: Any) -> None:
        """Nothing."""


def chain(*parallelism: int) -> Topology:
    """A spout and bolts behind each other, with so many tasks each."""
    builder = TopologyBuilder()
    builder.set_spout("c0", Source, parallelism=parallelism[0])
    for i, tasks in enumerate(parallelism[1:], 1):
        builder.set_bolt(f"c{i}", Step, parallelism=tasks).shuffle_grouping(f"c{i - 1}")
    return builder.create_topology()


def workers(count: int, nodes: int = 1) -> list[WorkerInfo]:
    return [WorkerInfo(f"w{i}", f"node-{i % nodes}") for i in range(count)]


def spread(numbers: list[int]) -> int:
    return max(numbers) - min(numbers)


def loads(placement: dict[int, str], names: list[str], tasks: tuple[int, ...] | None = None) -> list[int]:
    counted = Counter(worker for task, worker in placement.items() if tasks is None or task in tasks)
    return [counted[name] for name in names]


sizes = st.lists(st.integers(1, 9), min_size=1, max_size=8)


@given(sizes, st.integers(1, 12), st.integers(1, 3))
def test_tasks_are_spread_evenly_in_total_and_per_component(parallelism: list[int], count: int, nodes: int) -> None:
    topology = chain(*parallelism)
    plan = make_plan(topology, Config(workers=count))
    placement = place(topology, plan, workers(count, nodes))
    names = [w.name for w in workers(count)]
    assert placement.keys() == {task.task_id for task in plan.tasks}
    assert set(placement.values()) <= set(names)
    assert spread(loads(placement, names)) <= 1
    for tasks in plan.tasks_of.values():
        assert spread(loads(placement, names, tasks)) <= 1
    assert loads(placement, names, plan.tasks_of[ACKER_COMPONENT]) == [1] * count
    assert place(topology, plan, workers(count, nodes)) == placement


def least_moves(plan: Plan, previous: dict[int, str], names: list[str]) -> int:
    """No placement that is even has fewer: the fullest workers keep one more where there is one more to keep."""
    held = sorted((sum(worker == name for worker in previous.values()) for name in names), reverse=True)
    share, extras = divmod(len(plan.tasks), len(names))
    kept = sum(min(count, share + (i < extras)) for i, count in enumerate(held))
    return len(plan.tasks) - kept


@given(sizes, st.integers(1, 8), st.sets(st.integers(0, 9), min_size=1, max_size=8))
def test_changed_workers_are_rebalanced_with_the_fewest_moves(
    parallelism: list[int], before: int, after: set[int]
) -> None:
    topology = chain(*parallelism)
    plan = make_plan(topology, Config(workers=before))
    previous = place(topology, plan, workers(before))
    now = [WorkerInfo(f"w{i}") for i in sorted(after)]
    names = [w.name for w in now]
    placement = place(topology, plan, now, previous)
    assert placement.keys() == previous.keys()
    assert spread(loads(placement, names)) <= 1
    moves = sum(placement[task] != previous[task] for task in placement)
    assert moves == least_moves(plan, previous, names)


def test_unchanged_workers_keep_their_tasks() -> None:
    topology = chain(1, 3, 5)
    plan = make_plan(topology, Config(workers=3))
    previous = place(topology, plan, workers(3))
    assert place(topology, plan, workers(3)[::-1], previous) == previous


def test_neighbouring_components_share_a_worker_if_the_placement_stays_even() -> None:
    topology = chain(1, 1, 1, 1)
    plan = make_plan(topology, Config(workers=2, acker_executors=0))
    placement = place(topology, plan, workers(2))
    assert sum(placement[task] != placement[task + 1] for task in (1, 2, 3)) == 1


def test_components_are_assigned_in_the_order_of_the_stream_and_not_of_the_declaration() -> None:
    """So many that no two tasks are exchanged afterwards."""
    builder = TopologyBuilder()
    builder.set_spout("c0", Source)
    for i in sorted(range(1, 130), key=lambda i: i * 37 % 131):
        builder.set_bolt(f"c{i}", Step).shuffle_grouping(f"c{i - 1}")
    topology = builder.create_topology()
    plan = make_plan(topology, Config(workers=4, acker_executors=0))
    placement = place(topology, plan, workers(4))
    assert [placement[plan.tasks_of[f"c{i}"][0]] for i in range(130)] == [f"w{i % 4}" for i in range(130)]


def test_neighbours_by_two_streams_count_twice() -> None:
    """Of `once` and `twice` one can share the worker of the spout."""

    class Two(Source):
        outputs = {"default": "n", "again": "n"}  # noqa: RUF012

    for twice, once in (("b0", "b1"), ("b1", "b0")):
        builder = TopologyBuilder()
        builder.set_spout("s", Two)
        declarers = {name: builder.set_bolt(name, Step).shuffle_grouping("s") for name in ("b0", "b1")}
        declarers[twice].shuffle_grouping("s", stream="again")
        topology = builder.create_topology()
        plan = make_plan(topology, Config(workers=2, acker_executors=0))
        placed = {name: place(topology, plan, workers(2))[tasks[0]] for name, tasks in plan.tasks_of.items() if tasks}
        assert placed[twice] == placed["s"] != placed[once]


@pytest.mark.parametrize(
    ("edges", "placed"), [([(1, 2), (2, 3)], ["w1", "w0", "w0", "w1"]), ([(1, 2), (0, 3)], ["w1", "w0", "w0", "w1"])]
)
def test_of_exchanges_that_gain_as_much_the_first_is_made_and_no_other(
    edges: list[tuple[int, int]], placed: list[str]
) -> None:
    """Two spouts, two bolts, a task each: w0, w1, w0, w1 before."""
    builder = TopologyBuilder()
    for i in range(2):
        builder.set_spout(f"c{i}", Source)
    for source, bolt in edges:
        builder.set_bolt(f"c{bolt}", Step).shuffle_grouping(f"c{source}")
    topology = builder.create_topology()
    plan = make_plan(topology, Config(workers=2, acker_executors=0))
    assert list(place(topology, plan, workers(2)).values()) == placed


def test_a_component_is_spread_over_the_nodes_first() -> None:
    topology = chain(2)
    plan = make_plan(topology, Config(acker_executors=0))
    four = [WorkerInfo("a1", "a"), WorkerInfo("a2", "a"), WorkerInfo("b1", "b"), WorkerInfo("b2", "b")]
    assert set(place(topology, plan, four).values()) == {"a1", "b1"}


@pytest.mark.parametrize("names", [[], ["a", "a"]])
def test_no_workers_and_two_of_one_name_are_refused(names: list[str]) -> None:
    topology = chain(1)
    plan = make_plan(topology, Config())
    with pytest.raises(ValueError, match="one or more workers"):
        place(topology, plan, [WorkerInfo(name) for name in names])


class OnDriver(Source):
    on_driver = True


@given(sizes, st.integers(1, 6), st.integers(1, 4))
def test_only_components_of_the_driver_are_placed_on_the_driver(
    parallelism: list[int], count: int, sources: int
) -> None:
    builder = TopologyBuilder()
    builder.set_spout("near", OnDriver, parallelism=sources)
    builder.set_spout("far", lambda: Source(), parallelism=2)
    for i, tasks in enumerate(parallelism):
        builder.set_bolt(f"c{i}", Step, parallelism=tasks).shuffle_grouping("near").shuffle_grouping("far")
    topology = builder.create_topology()
    plan = make_plan(topology, Config(workers=count))
    infos = [*workers(count), WorkerInfo("driver-1", on_driver=True)]
    placement = place(topology, plan, infos)
    assert list(placement) == sorted(task.task_id for task in plan.tasks)
    there = {task for task, worker in placement.items() if worker == "driver-1"}
    assert there == set(plan.tasks_of["near"])
    others = [sum(worker == info.name for worker in placement.values()) for info in workers(count)]
    assert spread(others) <= 1
    assert place(topology, plan, infos, previous=placement) == placement
    without = place(topology, plan, workers(count))
    assert "driver-1" not in without.values()
    assert len(without) == len(placement)


def extras_of(placement: dict[int, str], plan: Plan, names: list[str]) -> dict[str, set[str]]:
    """Component → the workers that have one more of its tasks than the others have at least."""
    found = {}
    for component, tasks in plan.tasks_of.items():
        counts = dict(zip(names, loads(placement, names, tasks), strict=True))
        found[component] = {name for name in names if len(tasks) % len(names) and counts[name] > min(counts.values())}
    return found


def together(extras: dict[str, set[str]], edges: list[tuple[str, str]]) -> int:
    return sum(len(extras[one] & extras[other]) for one, other in edges)


@given(st.lists(st.tuples(st.integers(1, 6), st.integers(0, 20)), min_size=1, max_size=5), st.integers(2, 5))
def test_no_exchange_of_two_tasks_would_bring_more_neighbours_together(
    bolts: list[tuple[int, int]], count: int
) -> None:
    builder = TopologyBuilder()
    builder.set_spout("c0", Source)
    edges = []
    for i, (tasks, source) in enumerate(bolts, 1):
        edges.append((f"c{source % i}", f"c{i}"))
        builder.set_bolt(f"c{i}", Step, parallelism=tasks).shuffle_grouping(edges[-1][0])
    topology = builder.create_topology()
    plan = make_plan(topology, Config(workers=count, acker_executors=0))
    names = [worker.name for worker in workers(count)]
    extras = extras_of(place(topology, plan, workers(count)), plan, names)
    best = together(extras, edges)
    for one, heres in extras.items():
        for other, theres in extras.items():
            for here in heres - theres:
                for there in theres - heres:
                    if one != other:
                        exchanged = {
                            **extras, one: heres - {here} | {there}, other: theres - {there} | {here}
                        }  # fmt: skip
                        assert together(exchanged, edges) <= best


def test_a_task_of_an_ended_worker_goes_where_its_component_has_the_fewest() -> None:
    topology = chain(4, 4)
    plan = make_plan(topology, Config(workers=2, acker_executors=0))
    one, other = plan.tasks_of["c0"], plan.tasks_of["c1"]
    previous = {one[0]: "w0", one[1]: "w0", other[0]: "w0", one[2]: "w1", other[1]: "w1", other[2]: "w1"}
    previous |= {one[3]: "ended", other[3]: "ended"}
    assert place(topology, plan, workers(2), previous) == {**previous, one[3]: "w1", other[3]: "w0"}


def test_the_surplus_is_of_the_component_with_the_most_tasks_there() -> None:
    topology = chain(2, 4)
    plan = make_plan(topology, Config(workers=2, acker_executors=0))
    one, other = plan.tasks_of["c0"], plan.tasks_of["c1"]
    previous = dict.fromkeys([*one, *other], "w0")
    moved = place(topology, plan, workers(2), previous)
    assert {task for task, worker in moved.items() if worker == "w1"} == {other[3], other[2], other[1]}


def test_with_equal_crowds_of_its_component_a_task_goes_to_the_emptier_worker() -> None:
    topology = chain(1, 5)
    plan = make_plan(topology, Config(workers=2, acker_executors=0))
    [one], other = plan.tasks_of["c0"], plan.tasks_of["c1"]
    previous = {other[0]: "w0", other[1]: "w0", other[2]: "w1", one: "ended", other[3]: "ended", other[4]: "ended"}
    moved = place(topology, plan, workers(2), previous)
    assert moved[one] == "w1"
    assert loads(moved, ["w0", "w1"]) == [3, 3]


@pytest.mark.parametrize("previous", [{}, {999: "w0"}])
def test_a_previous_placement_of_other_tasks_is_none(previous: dict[int, str]) -> None:
    topology = chain(1, 1, 1, 1)
    plan = make_plan(topology, Config(workers=2, acker_executors=0))
    assert place(topology, plan, workers(2), previous) == place(topology, plan, workers(2))
