"""Pins and isolation in planning: components on labelled nodes, and topologies with nodes of their own."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiostorm.cluster.nimbus import (
    ISOLATE_KEY,
    REASSIGN_S,
    AssignmentRecord,
    Decisions,
    FailedProcess,
    Isolation,
    Seen,
    SupervisorRecord,
    TopologyRecord,
    check_pins,
    isolated_nodes,
    merged_pins,
    pinned_workers,
    plan,
)
from aiostorm.cluster.nimbus.pins import Candidate, Pins

from .test_planning import after, nodes, topology, without

GPU, DISK = frozenset({"gpu"}), frozenset({"disk"})
BOTH = GPU | DISK


def labelled(slots: int, **labels: frozenset[str]) -> dict[str, SupervisorRecord]:
    """Nodes with so many slots each."""
    return {name: SupervisorRecord("host", "address", slots, labels=own) for name, own in labels.items()}


def pinned(workers: int, *, at: float = 0.0, **pins: frozenset[str]) -> TopologyRecord:
    return topology(workers, at=at, pins=pins)


def alone(workers: int, machines: int, *, at: float = 0.0) -> TopologyRecord:
    return topology(workers, at=at, config={ISOLATE_KEY: machines})


def again(seen: Seen, name: str = "x", **changed: object) -> Seen:
    """A rebalance is ordered."""
    record = seen.topologies[name]
    changed_record = replace(record, generation=record.generation + 1, **changed)  # type: ignore[arg-type]
    return replace(seen, topologies={**seen.topologies, name: changed_record})


# -- pins --------------------------------------------------------------------------------------------------------------


def test_a_pin_gets_a_worker_where_the_label_is() -> None:
    supervisors = {**nodes(a=4, b=4), **labelled(1, g=GPU)}
    (made,) = plan(Seen({"x": pinned(2, detect=GPU)}, {}, supervisors)).write.values()
    assert "g" in made.workers
    assert made.labels == tuple(GPU if on == "g" else frozenset() for on in made.workers)
    record = pinned(2, detect=GPU)
    assert pinned_workers(record, made) == {
        "detect": tuple(f"worker-{i + 1}" for i, on in enumerate(made.workers) if on == "g")
    }


def test_one_node_serves_several_pins() -> None:
    supervisors = labelled(4, a=GPU, b=DISK, c=BOTH)
    (made,) = plan(Seen({"x": pinned(1, detect=GPU, save=DISK, both=BOTH)}, {}, supervisors)).write.values()
    assert (made.workers, made.labels) == (("c",), (BOTH,))


def test_why_a_pinned_topology_waits() -> None:
    def why(record: TopologyRecord, supervisors: dict[str, SupervisorRecord], **others: TopologyRecord) -> str:
        seen = after(Seen(others, {}, supervisors))
        decisions = plan(replace(seen, topologies={**seen.topologies, "x": record}))
        assert "x" not in decisions.write
        return decisions.waiting["x"]

    assert why(pinned(1, detect=BOTH), labelled(4, a=GPU, b=DISK)) == (
        "detect is pinned to nodes with the labels disk, gpu, and no node that it may have has that: start one "
        "(aiostorm supervisor --label disk --label gpu)"
    )
    full = topology(1, labels=GPU)
    assert why(pinned(1, at=1, detect=GPU, see=GPU), {**nodes(b=4), **labelled(1, a=GPU)}, y=full) == (
        "detect, see are pinned to nodes with the label gpu, and no slot is free on a: start another node that has "
        "that (aiostorm supervisor --label gpu), or kill a topology"
    )
    assert why(pinned(1, detect=GPU, save=DISK), labelled(4, a=GPU, b=DISK)) == (
        "its pins need workers on more nodes than the 1 that it asks for: ask for more workers"
    )


def test_a_pinned_worker_moves_only_to_a_node_with_the_label() -> None:
    supervisors = {**nodes(a=4), **labelled(1, g=GPU)}
    seen = after(Seen({"x": pinned(2, detect=GPU)}, {}, supervisors))
    before = seen.assignments["x"]
    lost = without(seen, "g", REASSIGN_S)
    decisions = plan(lost)
    assert decisions.write.get("x", before).workers == before.workers, "it waits"
    assert decisions.waiting["x"] == (
        "1 of 2 workers were on supervisors that are lost, and no slot is free on a node with the labels that their "
        "tasks need (gpu): start a supervisor --label gpu, or kill a topology"
    )
    found = replace(lost, supervisors={**lost.supervisors, **labelled(1, h=BOTH)})
    moved = plan(found).write["x"]
    assert moved.workers == tuple("h" if on == "g" else on for on in before.workers)
    assert (moved.labels, moved.generation) == (before.labels, 1)


def test_a_rebalance_is_named_where_it_helps() -> None:
    seen = after(Seen({"x": pinned(2, detect=GPU)}, {}, labelled(1, g=GPU, h=GPU)))
    lost = without(seen, "g", REASSIGN_S)
    lost = replace(lost, supervisors={**lost.supervisors, **nodes(a=4)})
    assert (
        "start a supervisor --label gpu, rebalance it (its other workers can run these tasks), or kill"
        in (plan(lost).waiting["x"])
    )
    assert sorted(after(again(lost)).assignments["x"].workers) == ["a", "h"]


def test_pins_of_an_isolated_topology() -> None:
    record = replace(pinned(2, detect=GPU, save=DISK), config={ISOLATE_KEY: 1})
    supervisors = labelled(4, a=GPU, b=DISK)
    assert plan(Seen({"x": record}, {}, supervisors)).waiting["x"] == (
        "its pins need workers on more nodes than the 1 that it asks for: ask for more nodes of its own "
        "(topology.isolate.machines)"
    )
    seen = after(Seen({"x": record}, {}, {**nodes(e=9), **supervisors, **labelled(2, c=BOTH)}))
    assert seen.assignments["x"].workers == ("c", "c"), "not where most is free"


def test_a_worker_without_pinned_tasks_leaves_the_last_slot_to_one_with_them() -> None:
    supervisors = {**labelled(1, g=GPU, h=GPU), **nodes(a=1)}
    seen = after(Seen({"x": pinned(2, detect=GPU)}, {}, {name: supervisors[name] for name in "ga"}))
    assert sorted(seen.assignments["x"].workers) == ["a", "g"]
    lost = replace(seen, supervisors={"h": supervisors["h"]}, missing_s={"g": REASSIGN_S, "a": REASSIGN_S})
    moved = plan(lost).write["x"]
    assert moved.workers == tuple("h" if on == "g" else on for on in seen.assignments["x"].workers)


def test_a_pinned_worker_that_fails_moves_to_a_node_with_the_label() -> None:
    supervisors = {**labelled(2, g=GPU, h=GPU), **nodes(a=9)}
    seen = after(Seen({"x": pinned(1, detect=GPU)}, {}, supervisors))
    assert seen.assignments["x"].workers == ("g",)
    bad = replace(supervisors["g"], failed=(FailedProcess("x", "worker-1", 1, why="a reason"),))
    decisions = plan(replace(seen, supervisors={**supervisors, "g": bad}))
    assert decisions.write["x"].workers == ("h",)
    left = {"g": bad, "a": supervisors["a"]}
    decisions = plan(replace(seen, supervisors=left))
    assert decisions.stuck == {"x"}
    assert decisions.waiting["x"].startswith("worker-1 does not stay alive on its node, and there is no other one")


def test_a_rebalance_follows_other_pins_and_other_labels() -> None:
    supervisors = {**nodes(a=4, b=4), **labelled(4, g=GPU)}
    seen = after(Seen({"x": topology(2)}, {}, supervisors))
    assert seen.assignments["x"].labels == ()
    seen = after(again(seen, pins={"detect": GPU}))
    assert "g" in seen.assignments["x"].workers
    assert plan(seen) == Decisions({}, frozenset(), {})
    # The label is on another node now: nothing moves before a rebalance.
    seen = replace(seen, supervisors={**nodes(a=4, g=4), **labelled(4, b=GPU)})
    assert plan(seen) == Decisions({}, frozenset(), {})
    seen = after(again(seen))
    assert "b" in seen.assignments["x"].workers
    # A pin that finds no node: it goes on as it was, and that is said.
    seen = again(seen, pins={"detect": BOTH})
    assert not plan(seen).write
    assert "detect is pinned to nodes with the labels disk, gpu" in plan(seen).waiting["x"]


def test_a_rebalance_keeps_workers_that_serve_the_pins_already() -> None:
    """A new node that would serve both pins alone is no reason to move two."""
    seen = after(Seen({"x": pinned(2, detect=GPU, save=DISK)}, {}, labelled(4, a=GPU, b=DISK)))
    assert seen.assignments["x"].workers == ("a", "b")
    seen = after(again(replace(seen, supervisors={**seen.supervisors, **labelled(9, c=BOTH)})))
    assert seen.assignments["x"].workers == ("a", "b")


def test_fewer_workers_serve_the_pins_first() -> None:
    supervisors = {**nodes(a=1), **labelled(1, g=GPU)}
    record = replace(pinned(9, detect=GPU), fewer=True)
    (made,) = plan(Seen({"x": record}, {}, supervisors)).write.values()
    assert sorted(made.workers) == ["a", "g"]


def test_pins_that_cannot_be() -> None:
    check_pins({"detect": GPU, "none": frozenset()})
    with pytest.raises(ValueError, match="at most 8 different sets of labels, not 9: give nodes"):
        check_pins({str(i): frozenset({str(i)}) for i in range(9)})
    with pytest.raises(ValueError, match=r"detect is pinned to 'a\\nb': a label has 1 to 100 printable characters"):
        check_pins({"detect": frozenset({"a\nb"})})
    with pytest.raises(ValueError, match="at most 1,000 pinned components, not 1,001"):
        check_pins({str(i): GPU for i in range(1001)})


def test_merged_pins() -> None:
    before = {"detect": GPU, "save": DISK}
    assert merged_pins(before, {"save": frozenset(), "see": BOTH}) == {"detect": GPU, "see": BOTH}
    with pytest.raises(ValueError, match="different sets of labels"):
        merged_pins({str(i): frozenset({str(i)}) for i in range(8)}, before)


labels = st.frozensets(st.sampled_from("pqrs"), max_size=3)


@given(st.lists(labels, max_size=6), st.lists(labels, max_size=5), st.integers(0, 5))
def test_a_cover_is_found_if_there_is_one(groups: list[frozenset[str]], there: list[frozenset[str]], most: int) -> None:
    pins = Pins(topology(1, pins={str(i): each for i, each in enumerate(groups)}))
    candidates = [Candidate(str(i), each, cost=i % 2) for i, each in enumerate(there)]
    found = pins.cover(pins.groups, candidates, most)

    def serves(taken: tuple[Candidate, ...]) -> bool:
        return not pins.missing(each.labels for each in taken)

    fits = [taken for size in range(most + 1) for taken in combinations(candidates, size) if serves(taken)]
    assert (found is None) == (not fits)
    if found is not None:
        taken = tuple(candidates[int(on)] for on in found)
        assert serves(taken)
        assert len(taken) <= most
        assert sum(each.cost for each in taken) == min(sum(each.cost for each in fit) for fit in fits)


# -- isolation ---------------------------------------------------------------------------------------------------------


def test_an_isolated_topology_has_nodes_of_its_own() -> None:
    seen = Seen({"x": alone(4, 2), "y": topology(2, at=1)}, {}, nodes(a=4, b=4, c=4))
    seen = after(seen)
    own = {seen.assignments["x"].parent, *seen.assignments["x"].workers}
    assert len(own) == 2
    assert own.isdisjoint({seen.assignments["y"].parent, *seen.assignments["y"].workers})


def test_it_waits_for_free_nodes_and_nothing_is_evicted() -> None:
    seen = after(Seen({"y": topology(2)}, {}, nodes(a=4, b=4, c=4, d=4)))
    seen = replace(seen, topologies={**seen.topologies, "x": alone(2, 2, at=1)})
    decisions = plan(seen)
    assert not decisions.write
    assert decisions.waiting["x"] == (
        "2 nodes of its own are needed (topology.isolate.machines), and 1 have no other topology: start another "
        "supervisor, kill a topology, or ask for fewer"
    )
    fewer = replace(seen.topologies["x"], fewer=True)
    assert plan(replace(seen, topologies={**seen.topologies, "x": fewer})).write["x"].workers == ("d", "d")


def test_others_wait_rather_than_share_its_nodes() -> None:
    seen = after(Seen({"x": alone(2, 2), "y": topology(1, at=1)}, {}, nodes(a=4, b=4)))
    assert seen.assignments.keys() == {"x"}
    assert plan(seen).waiting["y"] == (
        "1 slots are needed, and 0 are free: 2 supervisors have 8 slots, and 2 of them have an isolated topology: "
        "start another one (aiostorm supervisor); or kill a topology"
    )


def test_a_lost_node_of_its_own_is_replaced_by_a_free_one() -> None:
    seen = after(Seen({"x": alone(2, 2), "y": topology(1, at=1)}, {}, nodes(a=4, b=4, c=4, d=4, e=4)))
    lost = seen.assignments["x"].workers[0]
    moved = plan(without(seen, lost, REASSIGN_S)).write["x"]
    assert not {moved.parent, *moved.workers} & {seen.assignments["y"].parent, *seen.assignments["y"].workers}
    assert len({moved.parent, *moved.workers}) == 2


def test_no_more_nodes_than_workers() -> None:
    assert isolated_nodes(alone(2, 5)) == 2
    for wrong in (True, "2", 0, -1, None, 1.5):
        assert isolated_nodes(topology(2, config={ISOLATE_KEY: wrong})) == 0
    seen = after(Seen({"x": alone(1, 3)}, {}, nodes(a=4, b=4, c=4)))
    assert seen.assignments["x"] == AssignmentRecord(1, "a", ("a",))


def test_the_owner_of_a_node() -> None:
    seen = after(Seen({"x": alone(1, 1), "y": topology(1, at=1)}, {}, nodes(a=4, b=4)))
    isolation = Isolation(seen.topologies, seen.assignments)
    assert [isolation.owner(on) for on in "ab"] == ["x", ""]


# -- properties --------------------------------------------------------------------------------------------------------

some_nodes = st.dictionaries(
    st.sampled_from("abcdef"), st.tuples(st.integers(0, 4), st.frozensets(st.sampled_from(["gpu", "disk"]))), min_size=1
)
some_topologies = st.dictionaries(
    st.sampled_from("xyz"),
    st.builds(
        lambda workers, pins, fewer, machines, at: topology(
            workers,
            at=at,
            pins={name: each for name, each in pins.items() if each},
            fewer=fewer,
            config={ISOLATE_KEY: machines} if machines else {},
        ),
        st.integers(1, 5),
        st.dictionaries(st.sampled_from("pqr"), st.frozensets(st.sampled_from(["gpu", "disk"]))),
        st.booleans(),
        st.integers(0, 3),
        st.integers(0, 3).map(float),
    ),
    min_size=1,
)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("lose"), st.sampled_from("abcdef")),
        st.tuples(st.just("join"), st.sampled_from("abcdef")),
        st.tuples(st.just("rebalance"), st.sampled_from("xyz")),
        st.tuples(st.just("kill"), st.sampled_from("xyz")),
    ),
    max_size=8,
)


def stepped(seen: Seen, what: str, which: str, all_nodes: dict[str, SupervisorRecord]) -> Seen:
    if what == "lose":
        rest = {name: each for name, each in seen.supervisors.items() if name != which}
        return replace(seen, supervisors=rest, missing_s={**seen.missing_s, which: REASSIGN_S})
    if what == "join" and which in all_nodes:
        return replace(seen, supervisors={**seen.supervisors, which: all_nodes[which]})
    if what == "rebalance" and which in seen.topologies:
        return again(seen, which)
    if what == "kill" and which in seen.topologies:
        killed = replace(seen.topologies[which], wanted="KILLED")
        return replace(seen, topologies={**seen.topologies, which: killed})
    return seen


def settled(seen: Seen) -> Seen:
    """Plans until nothing changes any more: that comes soon."""
    for _ in range(20):
        decisions = plan(seen)
        assert plan(seen) == decisions, "the same input, the same plan"
        if not decisions.write and not decisions.end:
            return seen
        seen = after(seen, decisions)
    raise AssertionError("planning does not come to an end")


@given(some_nodes, some_topologies, steps)
def test_pins_hold_and_isolated_topologies_are_alone_whatever_happens(
    given_nodes: dict[str, tuple[int, frozenset[str]]],
    topologies: dict[str, TopologyRecord],
    events: list[tuple[str, str]],
) -> None:
    all_nodes = {
        name: SupervisorRecord("host", "address", slots, labels=own) for name, (slots, own) in given_nodes.items()
    }
    seen = settled(Seen(topologies, {}, all_nodes))
    for what, which in [("", ""), *events]:
        before = seen.assignments
        seen = settled(stepped(seen, what, which, all_nodes))
        for name, assignment in seen.assignments.items():
            record = seen.topologies[name]
            workers = [f"worker-{i + 1}" for i in range(len(assignment.workers))]
            on = dict(zip(workers, assignment.workers, strict=True))
            for component, names in pinned_workers(record, assignment).items():
                assert names, f"{component} has no worker"
                assert all(record.pins[component] <= all_nodes[on[each]].labels for each in names)
            if name in before and what != "rebalance" and before[name].generation == assignment.generation:
                assert assignment.labels == before[name].labels, "its parent keeps the placement of its tasks"
                kept = [old for old, new in zip(before[name].workers, assignment.workers, strict=True) if old == new]
                lost = [old for old in before[name].workers if old not in seen.supervisors]
                assert len(kept) + len(lost) >= len(assignment.workers), "only what was lost has moved"
        places = {name: {each.parent, *each.workers} for name, each in seen.assignments.items()}
        for name, own in places.items():
            machines = isolated_nodes(seen.topologies[name])
            if machines:
                assert len(own & seen.supervisors.keys()) <= machines
                assert all(own.isdisjoint(others) for other, others in places.items() if other != name)
        used = Counter(on for each in seen.assignments.values() for on in each.workers)
        assert all(count <= all_nodes[on].slots for on, count in used.items())


@given(some_nodes, some_topologies)
def test_a_rebalance_without_a_change_moves_nothing_of_a_pinned_topology(
    given_nodes: dict[str, tuple[int, frozenset[str]]], topologies: dict[str, TopologyRecord]
) -> None:
    all_nodes = {
        name: SupervisorRecord("host", "address", slots, labels=own) for name, (slots, own) in given_nodes.items()
    }
    seen = settled(Seen(topologies, {}, all_nodes))
    for name, before in seen.assignments.items():
        once = settled(again(seen, name)).assignments[name]
        twice = settled(again(settled(again(seen, name)), name)).assignments[name]
        assert Counter(twice.workers) == Counter(once.workers), "after one rebalance the next one moves nothing"
        if not isolated_nodes(seen.topologies[name]) and len(seen.assignments) == 1:
            assert Counter(once.workers) == Counter(before.workers)
