"""Pinned components: their tasks are placed only on the workers that may run them, and all tasks as evenly as that
allows."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiostorm import Config, LocalCluster, TopologyError
from aiostorm.cluster.pinned import check_pinned
from aiostorm.cluster.scheduler import WorkerInfo, place
from aiostorm.topology import make_plan

from .test_scheduler import chain, loads, sizes, spread, workers


@given(
    sizes,
    st.integers(1, 6),
    st.dictionaries(st.integers(0, 7), st.sets(st.integers(0, 5), min_size=1), max_size=4),
    st.booleans(),
)
def test_pinned_tasks_run_where_they_may_and_the_rest_is_even(
    parallelism: list[int], count: int, pins: dict[int, set[int]], again: bool
) -> None:
    topology = chain(*parallelism)
    plan = make_plan(topology, Config(workers=count))
    infos, names = workers(count), [w.name for w in workers(count)]
    pinned = {
        f"c{component}": sorted({f"w{worker % count}" for worker in may_run})
        for component, may_run in pins.items()
        if component < len(parallelism)
    }
    check_pinned(topology, pinned, names)
    previous = place(topology, plan, infos) if again else None
    placement = place(topology, plan, infos, previous, pinned)
    assert placement.keys() == {task.task_id for task in plan.tasks}
    assert placement == place(topology, plan, infos, previous, pinned), "the same input, the same placement"
    for component, tasks in plan.tasks_of.items():
        may_run = pinned.get(component, names)
        assert {placement[task] for task in tasks} <= set(may_run)
        if component in pinned and not again:
            assert spread(loads(placement, may_run, tasks)) <= 1, "its workers share its tasks"
    if previous is not None:
        component_of = {task: component for component, tasks in plan.tasks_of.items() for task in tasks}
        stay = {task for task, on in previous.items() if on in pinned.get(component_of[task], names)}
        assert all(placement[task] == previous[task] for task in stay)
        return
    # No worker that has an unpinned task has two more than another one: that task would have been placed there.
    held = Counter(placement.values())
    free = {placement[task] for component, tasks in plan.tasks_of.items() if component not in pinned for task in tasks}
    if free:
        assert max(held[name] for name in free) <= min(held[name] for name in names) + 1


def test_without_pins_the_placement_is_the_one_of_before() -> None:
    topology = chain(1, 3, 5)
    plan = make_plan(topology, Config(workers=3))
    assert place(topology, plan, workers(3), None, {}) == place(topology, plan, workers(3))


def test_neighbours_share_a_worker() -> None:
    topology = chain(1, 1, 1)
    plan = make_plan(topology, Config(workers=2, acker_executors=0))
    placement = place(topology, plan, [WorkerInfo("w0"), WorkerInfo("w1")], None, {"c0": ["w1"], "c1": ["w0"]})
    (last,) = plan.tasks_of["c2"]
    assert placement[last] == "w0", "with the component that it subscribes to"


def test_what_cannot_be_pinned_so() -> None:
    with pytest.raises(TopologyError) as raised:
        check_pinned(chain(1, 1), {"c9": ["w0"], "c0": ["w7"], "c1": []}, ["w0", "w1"])
    assert raised.value.problems == (
        "there is no component 'c9' to be pinned: there are c0, c1",
        "none of the workers (w0, w1) may run 'c0', which is pinned",
        "none of the workers (w0, w1) may run 'c1', which is pinned",
    )


async def test_a_cluster_without_remote_workers_has_none_for_a_pin() -> None:
    async with LocalCluster() as cluster:
        with pytest.raises(TopologyError, match=r"none of the workers \(there are none\) may run 'c1'"):
            await cluster.submit("pinned", chain(1, 1), pinned={"c1": ["worker-1"]})
        assert not cluster.topologies
