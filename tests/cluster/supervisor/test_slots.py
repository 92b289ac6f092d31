"""Slots: one process a key, what is assigned runs, what is not ends in time, a rebalance in the right order."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from aiostorm.cluster.nimbus import NO_STORE
from aiostorm.cluster.supervisor.slots import (
    DELAYS_S,
    END_S,
    PERIOD_S,
    Decision,
    Failing,
    Forgotten,
    Key,
    Kill,
    Recovered,
    Rests,
    Slots,
    Start,
    Terminate,
)
from aiostorm.cluster.supervisor.wanted import Assigned, Parent, Rest, Wanted

PARENT = Key("words", "parent")
WORKER = Key("words", "worker-1")
OTHER = Key("words", "worker-2")
BOTH = frozenset({"parent", "worker-1"})


def wanted(generation: int = 1, here: frozenset[str] = BOTH, **more: object) -> Wanted:
    return replace(Wanted({"words": Assigned(generation, here)}), **more)  # type: ignore[arg-type]


def running(here: frozenset[str] = BOTH) -> Slots:
    """Slots whose processes run, with the pids 1 for the parent and 2 for the worker."""
    slots = Slots()
    decisions = slots.see(wanted(here=here), 0.0)
    assert set(decisions) == {Start(Key("words", process), 1) for process in here}
    for process in here:
        assert slots.started(Key("words", process), 1 if process == "parent" else 2, 0.0) == []
    return slots


def kinds(decisions: list[Decision]) -> list[tuple[type, Key]]:
    return [(type(decision), decision.key) for decision in decisions]


def test_what_is_assigned_runs() -> None:
    slots = running()
    assert slots.see(wanted(), 1.0) == []
    assert slots.due_s is None


def test_what_ends_is_started_again_later_and_later() -> None:
    slots = running()
    now_s = 0.0
    for delay_s in DELAYS_S:
        decisions = slots.ended(WORKER, 69, now_s)
        if delay_s:
            assert decisions == []
            assert slots.due_s == now_s + delay_s
            now_s += delay_s
            assert slots.tick(now_s - 0.01) == []
            decisions = slots.tick(now_s)
        assert decisions == [Start(WORKER, 1)]
        slots.started(WORKER, 3, now_s)
    assert kinds(slots.ended(WORKER, -9, now_s)) == [(Failing, WORKER)]
    assert kinds(slots.tick(now_s + 5)) == [(Start, WORKER)]
    assert slots.not_started(WORKER, "no such file", now_s + 5) == [], "it is said once"
    now_s += 10
    assert kinds(slots.tick(now_s)) == [(Start, WORKER)]
    slots.started(WORKER, 4, now_s)
    assert slots.due_s == now_s - 5 + PERIOD_S
    assert slots.tick(now_s - 5 + PERIOD_S) == [Recovered(WORKER)]
    assert slots.due_s is None
    assert slots.ended(WORKER, 1, now_s + PERIOD_S + 1) == [Start(WORKER, 1)], "at once again"


def test_a_failing_process_is_named_with_its_last_end() -> None:
    slots = running()
    said = []
    for _ in range(12):
        said += [d for d in slots.ended(WORKER, 69, 0.0) if isinstance(d, Failing)]
        slots.tick(5.0)
        slots.started(WORKER, 3, 0.0)
    assert said == [Failing(WORKER, "it ended 5 times in 30 s, the last time: exit code 69")]


def test_a_process_of_the_plan_before_that_ends_does_not_fail_by_the_next_one() -> None:
    here = frozenset({"worker-1"})
    slots = running(here)
    parents = {"words": Parent(1, frozenset())}
    slots.see(wanted(here=here, parents=parents), 0.0)
    now_s = 0.0
    for delay_s in DELAYS_S:
        slots.ended(WORKER, 69, now_s)
        now_s += delay_s
        slots.tick(now_s)
        slots.started(WORKER, 3, now_s)
    assert slots.see(wanted(2, here, parents=parents), now_s) == []
    assert slots.ended(WORKER, 0, now_s) == [], "its parent has ended it for the next plan"


def test_a_parent_without_a_store_is_not_the_fault_of_its_node() -> None:
    slots = running()
    now_s = 0.0
    for code in (*[NO_STORE] * 20, 1):
        decisions = slots.ended(PARENT, code, now_s)
        if slots.due_s is not None:
            now_s = slots.due_s
            decisions += slots.tick(now_s)
        assert decisions == [Start(PARENT, 1)], "and it is not named as one that does not stay alive"
        slots.started(PARENT, 3, now_s)


def test_a_parent_that_ended_in_order_rests() -> None:
    slots = running()
    assert slots.ended(PARENT, 0, 1.0) == [Rests(PARENT)]
    assert slots.tick(1000.0) == []
    assert kinds(slots.see(wanted(2), 1000.0)) == [(Start, PARENT), (Terminate, WORKER)]
    slots = running()
    assert slots.ended(WORKER, 0, 1.0) == [Start(WORKER, 1)], "a worker does not"
    assert slots.ended(PARENT, None, 1.0) == [Start(PARENT, 1)], "nor does one whose code is not known"


def test_an_end_in_order_is_known_to_the_next_supervisor() -> None:
    slots = running()
    rest = slots.rest_after(PARENT, 0)
    assert rest == Rest(1, 0.0)
    assert slots.rest_after(PARENT, 1) is slots.rest_after(WORKER, 0) is None
    following = Slots()
    following.adopt_rest(PARENT, rest)
    assert kinds(following.see(wanted(), 0.0)) == [(Start, WORKER)]
    assert following.see(Wanted(), 1.0) == [Forgotten(PARENT)]
    following.adopt_rest(PARENT, rest)
    assert set(kinds(following.see(wanted(2), 0.0))) >= {(Start, PARENT)}, "another generation"


def test_what_was_noted_of_an_end_is_forgotten_also_if_the_assignment_has_ended_meanwhile() -> None:
    slots = running()
    noted = slots.rest_after(PARENT, 0)
    slots.see(Wanted(), 1.0)
    assert slots.rest_after(PARENT, 0) is None
    assert slots.ended(PARENT, 0, 1.0, noted) == [Forgotten(PARENT)]


def test_another_topology_of_the_same_name_does_not_rest() -> None:
    """It was killed and submitted again between two looks: it has generation 1, too."""
    slots = running()
    slots.ended(PARENT, 0, 1.0)
    again = Wanted({"words": Assigned(1, BOTH, submitted_s=77.0)})
    assert kinds(slots.see(again, 2.0)) == [(Start, PARENT)]


def test_nothing_of_a_topology_that_is_to_be_killed_is_started() -> None:
    slots = running()
    assert slots.see(wanted(killed=frozenset({"words"})), 1.0) == []
    assert slots.ended(PARENT, 1, 1.0) == []
    assert slots.ended(WORKER, 1, 1.0) == []
    assert slots.tick(100.0) == []
    assert slots.see(Wanted(), 100.0) == []
    assert Slots().see(wanted(killed=frozenset({"words"})), 0.0) == []


def test_what_is_not_assigned_ends() -> None:
    slots = running()
    assert set(kinds(slots.see(Wanted(), 1.0))) == {(Terminate, PARENT), (Terminate, WORKER)}
    assert slots.ended(PARENT, 0, 2.0) == []
    assert slots.due_s == 1.0 + END_S
    assert slots.tick(1.0 + END_S) == [Kill(WORKER, "it did not end within 10 s")]
    assert slots.due_s is None
    assert slots.ended(WORKER, -9, 12.0) == []
    assert slots.see(wanted(), 13.0) != []


def test_it_is_started_again_only_after_its_end() -> None:
    slots = running(frozenset({"worker-1"}))
    assert kinds(slots.see(Wanted(), 1.0)) == [(Terminate, WORKER)]
    assert slots.see(wanted(here=frozenset({"worker-1"})), 2.0) == []
    assert slots.ended(WORKER, 143, 3.0) == [Start(WORKER, 1)]


def test_one_that_was_moved_away_ends() -> None:
    slots = running()
    (decision,) = slots.see(wanted(here=frozenset({"parent"})), 1.0)
    assert decision == Terminate(WORKER, "it is assigned to another supervisor")


def test_an_abandoned_worker_is_killed_if_it_is_that_process() -> None:
    slots = running()
    assert slots.see(wanted(parents={"words": Parent(1, frozenset({"worker-1@3", "worker-2@2"}))}), 1.0) == []
    abandoned = wanted(parents={"words": Parent(1, frozenset({"worker-1@2"}))})
    assert slots.see(abandoned, 1.0) == [Kill(WORKER, "its parent has given it up")]
    assert slots.see(abandoned, 2.0) == [], "once"
    assert slots.ended(WORKER, -9, 2.0) == [Start(WORKER, 1)]
    assert slots.started(WORKER, 9, 2.0) == []


def test_adopted_processes_wait_until_something_is_known() -> None:
    slots = Slots()
    slots.adopt(PARENT, 1, 1)
    slots.adopt(WORKER, 2, 1)
    slots.adopt(Key("other", "worker-1"), 3, 4)
    assert slots.tick(100.0) == []
    assert slots.due_s is None
    assert slots.ended(PARENT, None, 100.0) == []
    assert set(kinds(slots.see(wanted(), 101.0))) == {(Start, PARENT), (Terminate, Key("other", "worker-1"))}


def test_what_cannot_be_read_stays() -> None:
    unread = Wanted(unread=frozenset({"words"}))
    slots = running()
    assert slots.see(unread, 1.0) == []
    assert slots.ended(WORKER, 1, 2.0) == [Start(WORKER, 1)], "it is started again"
    adopted = Slots()
    adopted.adopt(WORKER, 2, 7)
    assert adopted.see(unread, 1.0) == []
    assert adopted.ended(WORKER, None, 2.0) == [Start(WORKER, 7)]
    assert kinds(adopted.see(Wanted(), 3.0)) == []


def test_a_start_is_withdrawn() -> None:
    slots = Slots()
    assert slots.see(wanted(here=frozenset({"worker-1"})), 0.0) == [Start(WORKER, 1)]
    assert slots.wants(WORKER, 1)
    slots.see(wanted(2, here=frozenset({"worker-1"})), 1.0)
    assert not slots.wants(WORKER, 1)
    assert slots.withdrawn(WORKER, 2.0) == [Start(WORKER, 2)]
    slots.see(Wanted(), 3.0)
    assert not slots.wants(WORKER, 2)
    assert slots.withdrawn(WORKER, 4.0) == []


# -- any order of events -----------------------------------------------------------------------------------------------

TOPOLOGIES = ("a", "b")
PROCESSES = ("parent", "worker-1", "worker-2")
KEYS = [Key(topology, process) for topology in TOPOLOGIES for process in PROCESSES]

assignments = st.dictionaries(
    st.sampled_from(TOPOLOGIES),
    st.builds(Assigned, st.integers(1, 3), st.frozensets(st.sampled_from(PROCESSES)), st.integers(0, 3)),
)
parent_records = st.dictionaries(
    st.sampled_from(TOPOLOGIES),
    st.builds(
        Parent,
        st.integers(1, 3),
        st.frozensets(st.builds("{}@{}".format, st.sampled_from(PROCESSES), st.integers(1, 30)), max_size=2),
        st.integers(0, 10),
        st.integers(0, 3),
    ),
)
names = st.frozensets(st.sampled_from(TOPOLOGIES), max_size=1)


@dataclass
class Process:
    """A process of the world. `unwanted_s`: since when nothing wants it; `asked`: it got SIGTERM; `killed`: SIGKILL."""

    pid: int
    generation: int
    unwanted_s: float | None = None
    asked: bool = False
    killed: bool = False


@dataclass
class World:
    """What really runs."""

    running: dict[Key, Process] = field(default_factory=dict)
    starting: dict[Key, int] = field(default_factory=dict)
    pids: int = 0


class AnyOrder(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.slots = Slots()
        self.world = World()
        self.now_s = 0.0
        self.wanted = Wanted()
        self.known = False

    @initialize(adopted=st.dictionaries(st.sampled_from(KEYS), st.integers(1, 3)))
    def adopt(self, adopted: dict[Key, int]) -> None:
        for key, generation in adopted.items():
            self.world.pids += 1
            self.world.running[key] = Process(self.world.pids, generation)
            self.slots.adopt(key, self.world.pids, generation)

    @rule(assigned=assignments, killed=names, parents=parent_records)
    def see(self, assigned: dict[str, Assigned], killed: frozenset[str], parents: dict[str, Parent]) -> None:
        self.wanted = Wanted(assigned, killed, parents)
        self.known = True
        self.follow(self.slots.see(self.wanted, self.now_s))
        self.note_unwanted()

    @rule(unread=names)
    def see_less(self, unread: frozenset[str]) -> None:
        if self.known:
            kept = {name: each for name, each in self.wanted.assigned.items() if name not in unread}
            parents = {name: each for name, each in self.wanted.parents.items() if name not in unread}
            self.follow(self.slots.see(Wanted(kept, self.wanted.killed - unread, parents, unread), self.now_s))

    @rule(key=st.sampled_from(KEYS), fails=st.booleans())
    def start_is_over(self, key: Key, fails: bool) -> None:
        generation = self.world.starting.pop(key, None)
        if generation is None:
            return
        if fails:
            self.follow(self.slots.not_started(key, "for a reason", self.now_s))
        elif not self.slots.wants(key, generation):
            self.follow(self.slots.withdrawn(key, self.now_s))
        else:
            self.world.pids += 1
            self.world.running[key] = Process(self.world.pids, generation)
            self.follow(self.slots.started(key, self.world.pids, self.now_s))
            self.note_unwanted()

    @rule(key=st.sampled_from(KEYS), code=st.sampled_from([None, 0, 69, -9]))
    def end(self, key: Key, code: int | None) -> None:
        if self.world.running.pop(key, None) is not None:
            self.follow(self.slots.ended(key, code, self.now_s))

    @rule(seconds=st.sampled_from([0.1, 1.0, 4.0, 11.0, 40.0]))
    def wait(self, seconds: float) -> None:
        until_s = self.now_s + seconds
        while (due_s := self.slots.due_s) is not None and due_s <= until_s:
            self.now_s = max(self.now_s, due_s)
            self.follow(self.slots.tick(self.now_s))
            assert self.slots.due_s is None or self.slots.due_s > self.now_s, "it does not wait for the same again"
        self.now_s = until_s

    def follow(self, decisions: list[Decision]) -> None:
        for decision in decisions:
            key = decision.key
            if isinstance(decision, Start):
                assert key not in self.world.running, "two processes of one key"
                assert key not in self.world.starting, "two processes of one key"
                assert key.topology not in self.wanted.killed
                assert self.wanted.assigned[key.topology].generation == decision.generation
                assert key.process in self.wanted.assigned[key.topology].here
                self.world.starting[key] = decision.generation
            elif isinstance(decision, Terminate):
                process = self.world.running[key]
                assert not process.asked
                assert self.must_end(key, process)
                process.asked = True
            elif isinstance(decision, Kill):
                process = self.world.running[key]
                parent = self.wanted.parents.get(key.topology)
                abandoned = parent is not None and f"{key.process}@{process.pid}" in parent.abandoned
                assert process.asked or abandoned
                assert not process.killed
                process.killed = True

    def must_end(self, key: Key, process: Process) -> bool:
        """Must it end?"""
        assigned = self.wanted.assigned.get(key.topology)
        if assigned is None:
            return True
        if key.process in assigned.here and assigned.has(process.generation):
            return False
        if assigned.generation == process.generation or key.process == "parent":
            return True
        parent = self.wanted.parents.get(key.topology)
        return parent is None or parent.generation == assigned.generation or not parent.has(process.generation)

    def drains(self, key: Key, process: Process) -> bool:
        parent = self.wanted.parents.get(key.topology)
        assigned = key.topology in self.wanted.assigned
        return key.process == "parent" and assigned and parent is not None and parent.pid == process.pid

    def note_unwanted(self) -> None:
        for key, process in self.world.running.items():
            assigned, parent = self.wanted.assigned.get(key.topology), self.wanted.parents.get(key.topology)
            if assigned is not None and parent is not None and assigned.generation == parent.generation:
                own = key.process != "parent" or parent.pid == process.pid
                if own and not process.asked and key.process in assigned.here and assigned.has(process.generation):
                    process.generation = assigned.generation  # it goes on in that one
            if not self.must_end(key, process) or self.drains(key, process):
                process.unwanted_s = None
            elif process.unwanted_s is None:
                process.unwanted_s = self.now_s

    @invariant()
    def what_is_not_assigned_ends_in_time(self) -> None:
        if not self.known:
            return
        for process in self.world.running.values():
            if process.unwanted_s is not None:
                assert process.asked or process.killed
                assert process.killed or self.now_s < process.unwanted_s + END_S

    @invariant()
    def what_is_assigned_runs_or_will(self) -> None:
        if not self.known:
            return
        for topology, assigned in self.wanted.assigned.items():
            parent = self.wanted.parents.get(topology)
            if topology in self.wanted.killed or (parent is not None and parent.generation != assigned.generation):
                continue
            of_parent = self.world.running.get(Key(topology, "parent"))
            if of_parent is not None and of_parent.generation != assigned.generation:
                continue
            for process in assigned.here:
                key = Key(topology, process)
                there = key in self.world.running or key in self.world.starting
                assert there or self.slots.due_s is not None or self.slots._slots[key].rest


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = settings(max_examples=100, stateful_step_count=30)
