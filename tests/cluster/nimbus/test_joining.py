"""Topologies that are rebalanced by themselves when a node can take part: as stories and as properties."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiostorm.cluster.coordination import Create, Put
from aiostorm.cluster.nimbus import (
    PARENTS,
    AssignmentRecord,
    FailedProcess,
    ParentRecord,
    RefusedPlan,
    Seen,
    SupervisorRecord,
    TopologyRecord,
    confirm,
    pack,
    path_of,
    submit,
)
from aiostorm.cluster.nimbus.joining import AUTO_KEY, QUIET_S, Joining, newcomers
from aiostorm.cluster.nimbus.orders import next_plan

from .test_nimbus import cluster
from .test_planning import NAMES, after, nodes, topology

AUTO = {AUTO_KEY: True}


def parents_of(seen: Seen) -> dict[str, ParentRecord]:
    """All that are assigned run."""
    return {name: ParentRecord(each.parent, each.generation, state="ACTIVE") for name, each in seen.assignments.items()}


def joined(seen: Seen, **slots: int) -> Seen:
    return replace(seen, supervisors={**seen.supervisors, **nodes(**slots)})


def one(**rest: object) -> Seen:
    """A topology of two workers that runs on one node, and another node that has joined."""
    given = {"config": AUTO, **rest}
    return joined(after(Seen({"x": topology(2, **given)}, {}, nodes(a=4))), b=4)


def test_a_node_that_joins_takes_part_after_a_quiet_time() -> None:
    seen, joining = one(), Joining()
    parents = parents_of(seen)
    assert joining.due(seen, parents, 100.0) == ((), QUIET_S), "a leader has seen nothing before"
    assert joining.due(seen, parents, 100.0 + QUIET_S - 1) == ((), 1.0)
    assert joining.due(seen, parents, 100.0 + QUIET_S) == (("x",), None)
    seen = after(replace(seen, topologies={"x": next_plan(seen.topologies["x"])}))
    assert sorted(seen.assignments["x"].workers) == ["a", "b"]
    assert joining.due(seen, parents, 200.0) == ((), None), "its parent does not run so yet"
    seen = replace(seen, topologies={"x": replace(seen.topologies["x"], former=None)})
    assert joining.due(seen, parents_of(seen), 300.0) == ((), None), "nothing more is to be gained"
    seen = replace(joined(seen, c=4), topologies={"x": replace(seen.topologies["x"], workers=2)})
    assert joining.due(seen, parents_of(seen), 300.0 + QUIET_S) == ((), None), "two workers need no third node"


def test_a_topology_that_runs_for_long_is_rebalanced_at_once() -> None:
    joining = Joining()
    seen = after(Seen({"x": topology(2, config=AUTO)}, {}, nodes(a=4)))
    assert joining.due(seen, parents_of(seen), 0.0) == ((), None)
    assert joining.due(joined(seen, b=1), parents_of(seen), 2 * QUIET_S) == (("x",), None)
    joining.clear()
    assert joining.due(joined(seen, b=1), parents_of(seen), 3 * QUIET_S) == ((), QUIET_S)


@pytest.mark.parametrize(
    "rest",
    [
        {"config": {}},
        {"config": {AUTO_KEY: False}},
        {"config": {AUTO_KEY: "true"}},
        {"labels": frozenset({"gpu"})},
        {"wanted": "KILLED"},
        {"refused": RefusedPlan(1, "it failed")},
        {"former": TopologyRecord("m:t").plan()},
    ],
    ids=str,
)
def test_what_is_left_as_it_is(rest: dict[str, object]) -> None:
    seen = one()
    seen = replace(seen, topologies={"x": replace(seen.topologies["x"], **rest)})  # type: ignore[arg-type]
    joining = Joining()
    joining.due(seen, parents_of(seen), 0.0)
    assert joining.due(seen, parents_of(seen), 10 * QUIET_S).now == ()


@pytest.mark.parametrize(
    "parent",
    [
        None,
        ParentRecord("a", 1, state="STARTING"),
        ParentRecord("a", 1, state="FAILED"),
        ParentRecord("a", 1, state="ACTIVE", degraded="worker-1 is away"),
        ParentRecord("a", 0, state="ACTIVE"),
    ],
    ids=str,
)
def test_while_its_parent_does_not_run_it_well_it_is_left(parent: ParentRecord | None) -> None:
    seen, joining = one(), Joining()
    parents = {} if parent is None else {"x": parent}
    joining.due(seen, parents, 0.0)
    assert joining.due(seen, parents, 10 * QUIET_S) == ((), None)
    assert joining.due(seen, parents_of(seen), 10 * QUIET_S) == ((), QUIET_S), "it is counted from then on"


def test_a_node_is_no_reason_where_something_of_it_does_not_stay_alive_or_is_missing() -> None:
    seen, joining = one(), Joining()
    failing = SupervisorRecord("host", "address", 4, failed=(FailedProcess("x", "worker-1", 1),))
    for supervisors in ({**seen.supervisors, "b": failing}, {"b": seen.supervisors["b"]}):
        wrong = replace(seen, supervisors=supervisors)
        joining.due(wrong, parents_of(seen), 0.0)
        assert joining.due(wrong, parents_of(seen), 10 * QUIET_S) == ((), None)


async def test_nimbus_orders_it_and_no_sooner() -> None:
    async with cluster() as made:
        await made.nimbus("n1")
        await made.supervisor("a", 4)
        await submit(made.client, "words", topology(2, config=AUTO))
        await submit(made.client, "other", topology(2))
        await asyncio.sleep(1.0)
        async with made.store.client(session_s=3600) as parent:
            for name in ("words", "other"):
                record = ParentRecord("a", 1, state="ACTIVE")
                await parent.commit([Create(path_of(PARENTS, name), pack(record), ephemeral=True), Put(PARENTS, b"")])
            await made.supervisor("b", 4)
            await asyncio.sleep(QUIET_S - 2.0)
            assert await made.assignment("words") == AssignmentRecord(1, "a", ("a", "a"))
            await asyncio.sleep(4.0)
            found = await made.assignment("words")
            assert found is not None
            assert (found.generation, sorted(found.workers)) == (2, ["a", "b"])
            await asyncio.sleep(10 * QUIET_S)
            assert await made.assignment("words") == found, "its parent is still behind"
            await confirm(made.client, "words", 2)
            record = ParentRecord("a", 2, state="ACTIVE")
            await parent.commit([Put(path_of(PARENTS, "words"), pack(record)), Put(PARENTS, b"")])
            await asyncio.sleep(10 * QUIET_S)
            assert await made.assignment("words") == found, "it uses all nodes"
            assert await made.assignment("other") == AssignmentRecord(1, "a", ("a", "a")), "it has not asked for it"


topologies = st.builds(
    topology,
    st.integers(1, 5),
    at=st.integers(0, 3).map(float),
    fewer=st.booleans(),
    config=st.sampled_from([AUTO, {}]),
)
slots = st.dictionaries(st.sampled_from(NAMES), st.integers(0, 5))


@given(st.dictionaries(st.sampled_from("xyz"), topologies, min_size=1), slots, slots)
def test_it_comes_to_an_end_and_each_rebalance_uses_another_node(
    submitted: dict[str, TopologyRecord], before: dict[str, int], more: dict[str, int]
) -> None:
    seen = joined(after(Seen(submitted, {}, nodes(**before))), **{**more, **before})
    joining, now_s, last_s = Joining(), 0.0, dict.fromkeys(submitted, float("-inf"))
    for _ in range(40):
        due = joining.due(seen, parents_of(seen), now_s)
        for name in due.now:
            assert seen.topologies[name].config == AUTO
            assert now_s - last_s[name] >= QUIET_S
            last_s[name] = now_s
            expected, used = newcomers(seen, name), frozenset(seen.assignments[name].workers)
            ordered = replace(next_plan(seen.topologies[name]), former=None)
            seen = after(replace(seen, topologies={**seen.topologies, name: ordered}))
            assert expected
            assert frozenset(seen.assignments[name].workers) - used >= expected or len(due.now) > 1
        seen = after(seen)
        if due == ((), None):
            break
        now_s += QUIET_S / 2
    assert due == ((), None), "nothing more changes"
