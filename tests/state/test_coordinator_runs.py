"""The coordinator in any world: messages in any order, late, repeated and lost, workers and stores that fail.

The model is a store (the numbers whose manifests it has), and the outcome of each number as sinks learn it.
"""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from aiostorm.state import (
    Abort,
    Action,
    Answer,
    Closed,
    Commit,
    Coordinator,
    Done,
    Failed,
    Phase,
    Rollback,
    SnapshotSettings,
    Trigger,
    WriteManifest,
)

from ..tries import examples

TASKS = frozenset({1, 2, 3})
Confirmed = tuple[int, int, int]  # number, incarnation, task


class CoordinatorWorld(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0
        self.stored: set[int] = set()
        self.committed: set[int] = set()
        self.aborted: set[int] = set()
        self.triggered: list[int] = []
        self.highest = 0  # that a file names
        self.messages: list[Done | Failed | Confirmed] = []  # all that were ever sent: any of them may arrive again
        self.writing: WriteManifest | None = None
        self.rollback: Rollback | None = None
        self.requested: set[int] = set()
        self.answered: set[int] = set()
        self.drained = self.closed = False
        self.confirmed: set[Confirmed] = set()
        self.forgotten: set[int] = set()  # in the store, of an earlier process
        self.start(1)

    def start(self, incarnation: int) -> None:
        self.incarnation = incarnation
        settings_ = SnapshotSettings(interval_s=1.0, timeout_s=60.0, max_failures=3)
        self.coordinator = Coordinator(TASKS, settings_, incarnation=incarnation, highest=self.highest)
        self.rollback = Rollback(max(self.stored, default=None), incarnation, "start")

    # -- what the coordinator decides --------------------------------------------------------------------------------

    def take(self, actions: list[Action]) -> None:
        for action in actions:
            assert not self.closed, "after Closed nothing is decided"
            self.take_one(action)

    def take_one(self, action: Action) -> None:
        match action:
            case Trigger(number, incarnation):
                assert incarnation == self.incarnation
                assert self.rollback is None
                assert self.writing is None
                assert number > max(self.triggered, default=0), "a number is used once"
                assert number > self.highest
                assert not self.triggered or self.triggered[-1] in self.committed | self.aborted, "one at a time"
                assert self.coordinator.durable is None or self.is_confirmed(self.coordinator.durable)
                self.triggered.append(number)
                self.messages += [Done(number, task, incarnation) for task in TASKS]
                self.messages.append(Failed(number, 1, incarnation, "failed"))
                self.messages.append(Failed(number, 2, incarnation, "lost", lost=True))
            case WriteManifest(number, parts):
                assert self.writing is None
                assert number == self.triggered[-1]
                assert parts.keys() == TASKS
                assert {(done.number, done.incarnation) for done in parts.values()} == {(number, self.incarnation)}
                self.writing = action
                self.highest = number
            case Commit(number, incarnation, tasks):
                assert incarnation == self.incarnation
                assert number in self.stored, "nothing is committed that is not in the store"
                assert number not in self.aborted
                self.committed.add(number)
                self.messages += [(number, incarnation, task) for task in tasks]
            case Abort(number):
                assert number in self.triggered
                assert number not in self.committed | self.aborted, "one outcome"
                assert number not in self.stored, "what is in the store will be restored"
                assert self.writing is None
                self.aborted.add(number)
            case Rollback(number, incarnation):
                assert self.writing is None, "the store has not answered yet"
                assert number is None or number in self.stored
                assert incarnation > self.incarnation
                self.incarnation = incarnation
                self.rollback = action
                self.drained = False
            case Answer(requests, number):
                assert self.is_confirmed(number)
                assert not self.answered & set(requests)
                assert set(requests) <= self.requested
                self.answered |= set(requests)
            case Closed(number):
                assert self.is_confirmed(number)
                assert self.drained
                self.closed = True

    # -- what happens to it ------------------------------------------------------------------------------------------

    def is_confirmed(self, number: int) -> bool:
        """Have all tasks of this incarnation committed it?"""
        return number in self.committed and {(number, self.incarnation, task) for task in TASKS} <= self.confirmed

    def deliver(self, message: Done | Failed | Confirmed) -> None:
        if isinstance(message, Done):
            self.take(self.coordinator.on_done(message, self.now_s))
        elif isinstance(message, Failed):
            self.take(self.coordinator.on_failed(message, self.now_s))
        else:
            number, incarnation, task = message
            self.confirmed.add(message)
            self.take(self.coordinator.on_committed(number, incarnation, [task], self.now_s))

    @precondition(lambda self: self.messages)
    @rule(data=st.data(), recent=st.booleans())
    def any_message_arrives(self, data: st.DataObject, recent: bool) -> None:
        messages = self.messages[-5:] if recent else self.messages
        self.deliver(data.draw(st.sampled_from(messages)))

    @precondition(lambda self: self.messages)
    @rule()
    def all_good_messages_arrive(self) -> None:
        for message in self.messages[-20:]:
            if not isinstance(message, Failed):
                self.deliver(message)

    @precondition(lambda self: self.writing is None and self.rollback is None)
    @rule()
    def a_snapshot_is_taken(self) -> None:
        """As far as its manifest, if none fails."""
        self.all_good_messages_arrive()
        self.time_passes(5.0)
        self.all_good_messages_arrive()

    @rule(seconds=st.sampled_from([0.5, 1.0, 20.0, 60.0]))
    def time_passes(self, seconds: float) -> None:
        self.now_s += seconds
        self.take(self.coordinator.on_time(self.now_s))

    @precondition(lambda self: self.writing)
    @rule(fate=st.sampled_from(["written", "written", "failed", "unknown, there", "unknown, not there"]))
    def the_store_answers(self, fate: str) -> None:
        assert self.writing is not None
        number, self.writing = self.writing.number, None
        if fate in ("written", "unknown, there"):
            self.stored.add(number)
        if fate == "written":
            self.take(self.coordinator.on_written(number, self.now_s))
        else:
            certain = fate == "failed"
            self.take(self.coordinator.on_write_failed(number, fate, self.now_s, certain=certain))

    @precondition(lambda self: self.rollback)
    @rule(damaged=st.booleans())
    def the_tasks_are_built(self, damaged: bool) -> None:
        assert self.rollback is not None
        if damaged and self.stored:
            self.stored.discard(max(self.stored))
        incarnation, self.rollback = self.rollback.incarnation, None
        number = max(self.stored, default=None)
        # No process knows of a manifest that was damaged before it was read: sinks drop what is above `number`.
        self.aborted |= self.forgotten - self.stored
        assert self.coordinator.on_restored(incarnation - 1, number, self.now_s) == []
        self.take(self.coordinator.on_restored(incarnation, number, self.now_s))
        assert self.coordinator.durable == number

    @rule()
    def a_worker_is_lost(self) -> None:
        self.take(self.coordinator.on_worker_lost("a worker"))

    @precondition(lambda self: not self.closed and not self.writing)
    @rule()
    def the_process_restarts(self) -> None:
        """Nothing remains but the store. What was not committed is restored, or no file names it any more."""
        self.forgotten = (set(self.triggered) & self.stored) - self.committed
        self.aborted |= set(self.triggered) - self.stored - self.committed
        self.highest = max(self.triggered, default=0)  # in the worst case all have left a file
        self.requested, self.answered, self.drained = set(), set(), False
        self.start(self.incarnation + 1)

    @rule()
    def a_savepoint_is_requested(self) -> None:
        request = len(self.requested) + 1
        if not self.closed:
            self.requested.add(request)
        self.take(self.coordinator.on_request(request, self.now_s))

    @precondition(lambda self: self.rollback is None)
    @rule()
    def the_topology_is_drained(self) -> None:
        self.drained = True
        self.take(self.coordinator.on_drained(self.incarnation, self.now_s))

    @rule(seconds=st.sampled_from([0.5, 5.0]))
    def the_governor_postpones(self, seconds: float) -> None:
        self.coordinator.postpone(self.now_s + seconds)

    # -- what always holds -------------------------------------------------------------------------------------------

    @invariant()
    def it_knows_what_it_waits_for(self) -> None:
        phase, next_s = self.coordinator.phase, self.coordinator.next_s
        if phase in (Phase.IDLE, Phase.TAKING, Phase.COMMITTING):
            assert next_s is not None, "only time can end this, if no message arrives"
        else:
            assert next_s is None
        assert (phase is Phase.RESTORING) == (self.rollback is not None)
        assert (phase is Phase.WRITING) == (self.writing is not None)
        assert (phase is Phase.CLOSED) == self.closed

    def teardown(self) -> None:
        """From here on nothing fails: a new snapshot is committed soon, and every request is answered."""
        if self.closed:
            return
        before = max(self.triggered, default=0)
        for _ in range(12):
            if self.rollback is not None:
                self.the_tasks_are_built(damaged=False)
            self.all_good_messages_arrive()
            if self.writing is not None:
                self.the_store_answers("written")
            self.all_good_messages_arrive()
            if self.closed or (max(self.committed, default=0) > before and self.requested == self.answered):
                return
            self.time_passes(60.0)
        raise AssertionError(f"no progress: {self.coordinator.phase}")


CoordinatorWorld.TestCase.settings = settings(max_examples=examples(100), stateful_step_count=40)
TestAnyWorld = CoordinatorWorld.TestCase
