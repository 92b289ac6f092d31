"""Planning: slots, spreading, moves, rebalances, and the end; as stories and as properties."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from aiostorm.cluster.nimbus import (
    PARENT_PROCESS,
    REASSIGN_S,
    AssignmentRecord,
    Decisions,
    FailedProcess,
    Seen,
    SupervisorRecord,
    TopologyRecord,
    left_out,
    plan,
)

NAMES = ("a", "b", "c", "d")


def topology(workers: int, *, at: float = 0.0, **rest: object) -> TopologyRecord:
    return replace(TopologyRecord("m:t", workers=workers, submitted_s=at), **rest)  # type: ignore[arg-type]


def nodes(**slots: int) -> dict[str, SupervisorRecord]:
    return {name: SupervisorRecord("host", "address", count) for name, count in slots.items()}


def after(seen: Seen, decisions: Decisions | None = None) -> Seen:
    """What is seen when the decisions have been written."""
    made = plan(seen) if decisions is None else decisions
    kept = {name: each for name, each in seen.topologies.items() if name not in made.end}
    assignments = {name: each for name, each in {**seen.assignments, **made.write}.items() if name not in made.end}
    return replace(seen, topologies=kept, assignments=assignments)


# -- a new topology ----------------------------------------------------------------------------------------------------


def test_workers_are_spread_and_parents_too() -> None:
    seen = after(Seen({"x": topology(3), "y": topology(2, at=1)}, {}, nodes(a=4, b=4, c=1)))
    assert seen.assignments == {
        "x": AssignmentRecord(1, "a", ("a", "b", "c")),
        "y": AssignmentRecord(1, "b", ("a", "b")),
    }


def test_too_few_slots() -> None:
    decisions = plan(Seen({"large": topology(4), "small": topology(2, at=1)}, {}, nodes(a=2, b=1)))
    assert decisions.write.keys() == {"small"}, "a later one that fits does not wait"
    assert decisions.waiting == {
        "large": "4 slots are needed, and 1 are free: 2 supervisors have 3 slots: start another one "
        "(aiostorm supervisor); or kill a topology, or ask for 1"
    }


def test_fewer_workers_if_that_is_allowed() -> None:
    (made,) = plan(Seen({"x": topology(4, fewer=True)}, {}, nodes(a=2, b=1))).write.values()
    assert sorted(made.workers) == ["a", "a", "b"]
    decisions = plan(Seen({"x": topology(4, fewer=True)}, {}, nodes(a=0)))
    assert not decisions.write
    assert decisions.waiting["x"].startswith("4 slots are needed, and 0 are free: 1 supervisors have 0 slots")


def test_without_supervisors() -> None:
    decisions = plan(Seen({"x": topology(1)}, {}, {}))
    assert "no supervisor is there: start one" in decisions.waiting["x"]


def test_labels() -> None:
    supervisors = {**nodes(a=4), "gpu": SupervisorRecord("host", "address", 2, labels=frozenset({"gpu", "eu"}))}
    seen = Seen({"x": topology(2, labels=frozenset({"gpu"}))}, {}, supervisors)
    assert plan(seen).write == {"x": AssignmentRecord(1, "gpu", ("gpu", "gpu"))}
    seen = Seen({"x": topology(1, labels=frozenset({"gpu", "us"}))}, {}, supervisors)
    assert "none of 2 supervisors has the labels gpu, us: start one that has" in plan(seen).waiting["x"]


MIB = 1024**2


def test_memory_and_cores() -> None:
    supervisors = {
        "large": SupervisorRecord("host", "address", 8, memory_bytes=1000 * MIB, cores=4.0),
        "small": SupervisorRecord("host", "address", 8, memory_bytes=400 * MIB, cores=0.5),
        "any": SupervisorRecord("host", "address", 1),
    }
    hungry = topology(4, worker_memory_bytes=300 * MIB)
    (made,) = plan(Seen({"x": hungry}, {}, supervisors)).write.values()
    assert Counter(made.workers) == {"large": 2, "small": 1, "any": 1}
    decisions = plan(Seen({"x": replace(hungry, workers=6)}, {}, supervisors))
    assert decisions.waiting["x"].startswith("6 slots with 300 MiB each are needed, and 5 are free")
    busy = topology(3, worker_memory_bytes=100 * MIB, worker_cores=1.5)
    (made,) = plan(Seen({"x": busy}, {}, supervisors)).write.values()
    assert Counter(made.workers) == {"large": 2, "any": 1}
    decisions = plan(Seen({"x": replace(busy, workers=4)}, {}, supervisors))
    assert decisions.waiting["x"].startswith("4 slots with 100 MiB and 1.5 cores each are needed, and 3 are free")
    # What declares nothing takes a slot, and nothing else.
    seen = after(Seen({"x": hungry, "y": topology(9, at=1)}, {}, supervisors))
    assert len(seen.assignments["y"].workers) == 9


def test_tenths_of_cores_fit_exactly() -> None:
    supervisors = {"a": SupervisorRecord("host", "address", 20, cores=1.0)}
    (made,) = plan(Seen({"x": topology(10, worker_cores=0.1)}, {}, supervisors)).write.values()
    assert len(made.workers) == 10


def test_a_node_that_has_less_than_before_keeps_what_runs() -> None:
    supervisors = {"a": SupervisorRecord("host", "address", 4, memory_bytes=900 * MIB)}
    seen = after(Seen({"x": topology(3, worker_memory_bytes=300 * MIB)}, {}, supervisors))
    seen = replace(seen, supervisors={"a": replace(supervisors["a"], memory_bytes=300 * MIB)})
    assert plan(seen) == Decisions({}, frozenset(), {})
    seen = replace(seen, topologies={"x": replace(seen.topologies["x"], generation=2)})
    assert plan(seen).waiting["x"].startswith("3 slots with 300 MiB each are needed, and 1 are free")


# -- supervisors come and go -------------------------------------------------------------------------------------------


def placed(topologies: dict[str, TopologyRecord], **slots: int) -> Seen:
    return after(Seen(topologies, {}, nodes(**slots)))


def without(seen: Seen, lost: str, missing_s: float) -> Seen:
    rest = {name: each for name, each in seen.supervisors.items() if name != lost}
    return replace(seen, supervisors=rest, missing_s={lost: missing_s})


def test_a_supervisor_that_is_restarted_keeps_its_processes() -> None:
    seen = placed({"x": topology(3)}, a=3, b=3)
    for missing_s in (0.0, REASSIGN_S - 0.001):
        assert plan(without(seen, "a", missing_s)) == Decisions({}, frozenset(), {})


def test_a_lost_node() -> None:
    seen = without(placed({"x": topology(3)}, a=3, b=3), "a", REASSIGN_S)
    (made,) = plan(seen).write.values()
    assert made == AssignmentRecord(1, "b", ("b", "b", "b"))


def test_a_lost_node_and_no_free_slot() -> None:
    before = placed({"x": topology(4)}, a=2, b=2)
    seen = without(before, "a", REASSIGN_S)
    decisions = plan(seen)
    assert "2 of 4 workers were on supervisors that are lost, and no slot is free" in decisions.waiting["x"]
    assert after(seen).assignments["x"].workers == before.assignments["x"].workers
    assert after(seen).assignments["x"].parent == "b"
    # Another node joins: what was lost moves there, and nothing else.
    seen = replace(after(seen), supervisors=nodes(b=2, c=4))
    moved = [
        (old, new)
        for old, new in zip(before.assignments["x"].workers, after(seen).assignments["x"].workers, strict=True)
    ]
    assert Counter(moved) == {("a", "c"): 2, ("b", "b"): 2}


def test_a_node_that_joins_changes_nothing_before_a_rebalance() -> None:
    seen = placed({"x": topology(4)}, a=4)
    seen = replace(seen, supervisors=nodes(a=4, b=4))
    assert plan(seen) == Decisions({}, frozenset(), {})
    seen = replace(seen, topologies={"x": topology(4, generation=2)})
    made = plan(seen).write["x"]
    assert made.generation == 2
    assert Counter(made.workers) == {"a": 2, "b": 2}
    assert sum(new != "a" for new in made.workers) == 2


# -- what does not stay alive ------------------------------------------------------------------------------------------


def failing(seen: Seen, on: str, *processes: str, generation: int = 1, submitted_s: float = 0.0) -> Seen:
    """What is seen when a supervisor names these processes, as `x/worker-1`."""
    named = tuple(FailedProcess(*each.split("/"), generation, submitted_s, "exit code 1") for each in processes)
    record = seen.supervisors[on]
    return replace(seen, supervisors={**seen.supervisors, on: replace(record, failed=record.failed + named)})


def test_a_process_that_does_not_stay_alive_moves_once_to_each_node() -> None:
    seen = placed({"x": topology(2)}, a=2, b=2, c=2)
    assert seen.assignments["x"] == AssignmentRecord(1, "c", ("a", "b"))
    seen = after(failing(seen, "a", "x/worker-1"))
    assert seen.assignments["x"] == AssignmentRecord(1, "c", ("c", "b"))
    assert plan(seen).write == {}
    seen = after(failing(seen, "c", "x/worker-1"))
    assert seen.assignments["x"] == AssignmentRecord(1, "c", ("b", "b"))
    seen = failing(seen, "b", "x/worker-1")
    decisions = plan(seen)
    assert decisions.write == {}, "it is the topology's fault"
    assert decisions.waiting["x"] == (
        "worker-1 does not stay alive on any of 3 nodes: the fault is the topology's (exit code 1; see aiostorm logs)"
    )


def test_a_parent_moves_too() -> None:
    seen = after(failing(placed({"x": topology(1)}, a=1, b=1), "a", "x/parent"))
    assert seen.assignments["x"] == AssignmentRecord(1, "b", ("a",))


def test_where_a_parent_failed_workers_may_stay_alive() -> None:
    seen = after(failing(placed({"x": topology(1)}, a=1, b=1), "a", "x/parent"))
    assert seen.assignments["x"] == AssignmentRecord(1, "b", ("a",))
    seen = placed({"x": topology(1)}, a=1, b=1)
    decisions = plan(failing(failing(seen, "b", "x/parent"), "a", "x/worker-1"))
    assert decisions.write["x"].workers == ("b",)


def test_what_failed_before_a_rebalance_or_another_submission_moves_nothing() -> None:
    seen = placed({"x": topology(2)}, a=2, b=2)
    assert plan(failing(seen, "a", "x/worker-1", generation=2)).write == {}
    assert plan(failing(seen, "a", "x/worker-1", submitted_s=7.0)).write == {}
    assert plan(failing(seen, "b", "x/worker-1")).write == {}, "it is not there any more"


def test_what_fails_stays_if_no_other_node_has_a_free_slot() -> None:
    decisions = plan(failing(placed({"x": topology(2)}, a=1, b=1), "a", "x/worker-1"))
    assert decisions.write == {}
    assert "worker-1 does not stay alive where it is, and no other node has a free slot" in decisions.waiting["x"]
    decisions = plan(failing(placed({"x": topology(1)}, a=4), "a", "x/worker-1", "x/parent"))
    assert decisions.write == {}
    assert "worker-1, parent do not stay alive on its node, and there is no other one" in decisions.waiting["x"]


def test_a_node_on_which_many_fail_is_used_last() -> None:
    seen = Seen({}, {}, nodes(a=9, b=2))
    two = failing(seen, "a", "u/worker-1", "v/worker-1")
    assert not left_out(two.supervisors)
    three = failing(two, "a", "v/worker-2")
    assert left_out(three.supervisors) == {"a"}
    x = {"x": topology(3)}
    assert plan(replace(two, topologies=x)).write["x"] == AssignmentRecord(1, "a", ("a", "b", "a"))
    assert plan(replace(three, topologies=x)).write["x"] == AssignmentRecord(1, "b", ("b", "b", "a"))
    assert not left_out(failing(three, "b", "v/parent").supervisors), "v fails on b, too: that is not the fault of a"
    alone = replace(three, supervisors={"a": three.supervisors["a"]})
    assert not left_out(alone.supervisors), "not the last one"


# -- rebalance ---------------------------------------------------------------------------------------------------------


def test_more_and_fewer_workers() -> None:
    seen = placed({"x": topology(2)}, a=4, b=4)
    before = seen.assignments["x"].workers
    seen = after(replace(seen, topologies={"x": topology(5, generation=2)}))
    assert seen.assignments["x"].workers[:2] == before
    assert sorted(Counter(seen.assignments["x"].workers).values()) == [2, 3]
    seen = after(replace(seen, topologies={"x": topology(1, generation=3)}))
    assert len(seen.assignments["x"].workers) == 1


def test_a_rebalance_without_free_slots_waits_and_what_runs_goes_on() -> None:
    seen = placed({"x": topology(2), "y": topology(1, at=1)}, a=2, b=2)
    grown = replace(seen, topologies={**seen.topologies, "x": topology(4, generation=2)})
    decisions = plan(grown)
    assert not decisions.write
    assert decisions.waiting["x"].startswith("4 slots are needed, and 3 are free")
    # Lost processes move all the same.
    (made,) = (plan(without(replace(grown, supervisors=nodes(a=2, b=2, c=2)), "a", 99.0)).write,)
    assert "a" not in made["x"].workers


def test_a_rebalance_may_get_fewer() -> None:
    seen = placed({"x": topology(2)}, a=2, b=1)
    made = plan(replace(seen, topologies={"x": topology(9, generation=2, fewer=True)})).write["x"]
    assert Counter(made.workers) == {"a": 2, "b": 1}


def test_other_labels_move_all() -> None:
    seen = placed({"x": topology(2)}, a=2)
    seen = replace(seen, supervisors={**nodes(a=2), "b": SupervisorRecord("h", "a", 2, labels=frozenset({"new"}))})
    made = plan(replace(seen, topologies={"x": topology(2, generation=2, labels=frozenset({"new"}))})).write["x"]
    assert made == AssignmentRecord(2, "b", ("b", "b"))


# -- the end -----------------------------------------------------------------------------------------------------------


def test_a_killed_topology_keeps_its_slots_until_its_parent_has_ended() -> None:
    seen = placed({"x": topology(2)}, a=2)
    killed = {"x": topology(2, wanted="KILLED"), "y": topology(1, at=1)}
    decisions = plan(replace(seen, topologies=killed, parents=frozenset({"x"})))
    assert not decisions.end
    assert not decisions.write
    decisions = plan(replace(seen, topologies=killed))
    assert decisions.end == {"x"}
    assert decisions.write == {"y": AssignmentRecord(1, "a", ("a",))}


def test_an_assignment_without_a_topology_ends() -> None:
    seen = Seen({}, {"x": AssignmentRecord(1, "a", ("a",))}, nodes(a=1))
    assert plan(seen).end == {"x"}
    assert not plan(replace(seen, parents=frozenset({"x"}))).end


# -- properties --------------------------------------------------------------------------------------------------------

topologies = st.dictionaries(
    st.sampled_from(("t", "u", "v", "w")),
    st.builds(
        topology,
        st.integers(1, 5),
        at=st.integers(0, 3).map(float),
        fewer=st.booleans(),
        generation=st.integers(1, 2),
        wanted=st.sampled_from(("ACTIVE", "INACTIVE", "ACTIVE", "KILLED")),
        labels=st.sampled_from((frozenset(), frozenset(), frozenset({"gpu"}))),
        worker_memory_bytes=st.sampled_from((0, 0, 1, 2)),
        worker_cores=st.sampled_from((0.0, 0.0, 0.5, 1.0)),
    ),
)
supervisors = st.dictionaries(
    st.sampled_from(NAMES),
    st.builds(
        SupervisorRecord,
        st.just("host"),
        st.just("address"),
        st.integers(0, 4),
        labels=st.sampled_from((frozenset(), frozenset({"gpu"}))),
        memory_bytes=st.sampled_from((0, 0, 2, 5)),
        cores=st.sampled_from((0.0, 0.0, 1.0, 2.5)),
        failed=st.lists(
            st.builds(
                FailedProcess,
                st.sampled_from(("t", "u")),
                st.sampled_from(("worker-1", "worker-2", "parent")),
                st.integers(1, 2),
                st.integers(0, 1).map(float),
            ),
            max_size=3,
        ).map(tuple),
    ),
)


@st.composite
def worlds(draw: st.DrawFn) -> Seen:
    """Something that has been placed, and then changed."""
    first = after(Seen(draw(topologies), {}, draw(supervisors)))
    second = draw(topologies)
    missing = {name: draw(st.sampled_from((0.0, REASSIGN_S, 60.0))) for name in NAMES}
    parents = frozenset(draw(st.sets(st.sampled_from(("t", "u", "v", "w")))))
    return Seen({**first.topologies, **second}, first.assignments, draw(supervisors), missing, parents)


@given(worlds())
def test_what_holds_after_every_plan(seen: Seen) -> None:
    decisions = plan(seen)
    then = after(seen, decisions)
    used: Counter[str] = Counter()
    for each in then.assignments.values():
        used.update(each.workers)
    for name, node in seen.supervisors.items():
        before = sum(each.workers.count(name) for each in seen.assignments.values())
        assert used[name] <= max(node.slots, before), "no supervisor gets more than it has slots"
        for declared, of_worker in ((node.memory_bytes, "worker_memory_bytes"), (node.cores, "worker_cores")):
            before_sum, now_sum = (
                sum(
                    each.workers.count(name) * getattr(then.topologies[topology_name], of_worker)
                    for topology_name, each in placed_now.items()
                    if topology_name in then.topologies
                )
                for placed_now in (seen.assignments, then.assignments)
            )
            assert not declared or now_sum <= max(declared, before_sum), f"nor more than its {of_worker}"
    for name, made in decisions.write.items():
        wanted = seen.topologies[name]
        assert wanted.wanted != "KILLED"
        assert 1 <= len(made.workers) <= max(wanted.workers, len(seen.assignments.get(name, made).workers))
        assert (
            wanted.fewer
            or made.generation != wanted.generation
            or len(made.workers) == wanted.workers
            or (name in seen.assignments and seen.assignments[name].generation == wanted.generation)
        )
        _check_moves(seen, name, made)
    for name in decisions.end:
        assert name not in seen.parents
    waits = {name for name, each in then.topologies.items() if name not in then.assignments and each.wanted != "KILLED"}
    assert waits <= decisions.waiting.keys(), "who waits knows why"
    for _ in range(2 * len(seen.topologies) + 1):
        if not plan(then).write:
            break
        then = after(then)
    decisions = plan(then)
    assert (decisions.write, decisions.end) == ({}, frozenset()), "planning comes to an end"
    assert plan(then) == decisions


def _check_moves(seen: Seen, name: str, made: AssignmentRecord) -> None:
    before = seen.assignments.get(name)
    topology_now = seen.topologies[name]
    if before is None:
        for on in (made.parent, *made.workers):
            assert topology_now.labels <= seen.supervisors[on].labels
    elif made.generation == before.generation:
        pairs = zip((before.parent, *before.workers), (made.parent, *made.workers), strict=True)
        for is_parent, (old, new) in zip((True, *(False for _ in made.workers)), pairs, strict=True):
            if old != new and old in seen.supervisors:
                of_topology = (name, before.generation, topology_now.submitted_s)
                fails_on = {
                    on
                    for on, each in seen.supervisors.items()
                    for one in each.failed
                    if (one.topology, one.generation, one.submitted_s) == of_topology
                    and (one.process == PARENT_PROCESS) == is_parent
                }
                assert old in fails_on, "nothing moves that is well"
                assert new not in fails_on, "nor to where it is not"
            else:
                assert old == new or seen.missing_s[old] >= REASSIGN_S


@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=4),
    st.lists(st.integers(0, 3), min_size=1, max_size=6),
    st.integers(1, 6),
)
def test_a_rebalance_is_even_with_the_fewest_moves(slots: list[int], places: list[int], count: int) -> None:
    names = NAMES[: len(slots)]
    before = [names[place % len(names)] for place in places]
    have = Counter(before)
    limits = dict(zip(names, slots, strict=True))
    if count > sum(slots) or any(have[name] > limits[name] for name in names):
        return
    supervisors_now = nodes(**limits)
    seen = Seen({"x": topology(count, generation=2)}, {"x": AssignmentRecord(1, "a", tuple(before))}, supervisors_now)
    made = Counter(plan(seen).write["x"].workers)
    every = [
        dict(zip(names, counts, strict=True))
        for counts in product(*(range(limit + 1) for limit in slots))
        if sum(counts) == count
    ]

    def uneven(spread: dict[str, int]) -> int:
        return sum(each * each for each in spread.values())

    def stay(spread: dict[str, int]) -> int:
        return sum(min(each, have[name]) for name, each in spread.items())

    least = min(map(uneven, every))
    assert uneven(dict(made)) == least
    assert stay(dict(made)) == max(stay(spread) for spread in every if uneven(spread) == least)
