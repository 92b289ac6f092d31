"""A model of barriers in a topology: tasks, mailboxes, receive buffers of workers, and who waits behind a barrier.

    task ─ outlet ─────────────────────────► mailbox ─ task        in one worker
    task ─ outlet ─► receive buffer ───────► mailbox ─ task        from another: one for all its tasks

A world is a random DAG with mailboxes and receive buffers of 1 to 4 places. Its steps are chosen at random; one step
moves one item, or lets one task process one. Three variants:

HOLD     the sender keeps what is behind its barrier until the target has reported that it is aligned
REFUSE   the target's mailbox refuses a source from the turn of its barrier on, until the target is aligned
NONE     what is behind a barrier is sent and processed at once

The model counts by itself. The aligners of its tasks are fed beside it, so that both can be compared.
"""

from __future__ import annotations

import enum
import random
from collections import Counter, deque
from dataclasses import dataclass, field

from aiostorm.state import Aligned, Aligner, Lost

Edge = tuple[int, int]
Barrier = tuple[int, int]  # number, rows sent before it
Item = Barrier | None  # None: a row
SNAPSHOTS = 3


class Variant(enum.Enum):
    HOLD = "the sender holds"
    REFUSE = "the receiver refuses"
    NONE = "no hold"


@dataclass
class ModelTask:
    """One task: what it has received and sent, and its cuts: number → (received by source, sent by target)."""

    inputs: list[int] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)
    rows_left: int = 0  # of a spout
    places: int = 0
    mailbox: deque[tuple[int, Item]] = field(default_factory=deque)
    control: deque[tuple[str, int]] = field(default_factory=deque)  # from the coordinator, in order
    received: Counter[int] = field(default_factory=Counter)
    sent: Counter[int] = field(default_factory=Counter)
    arrived: set[int] = field(default_factory=set)
    number: int = 0
    cuts: dict[int, tuple[Counter[int], Counter[int]]] = field(default_factory=dict)
    aligner: Aligner = field(default_factory=lambda: Aligner(()))


class HoldModel:
    """One world. `aborts`: the coordinator gives up some snapshots in the middle (of the variant HOLD)."""

    def __init__(self, seed: int, variant: Variant, *, aborts: bool = False) -> None:
        self.variant = variant
        self.lost: list[Lost] = []
        self.aborted: set[int] = set()
        self.number = 0
        self._aborts = aborts
        self._rng = rng = random.Random(seed)
        spouts = rng.randint(1, 3)
        self.tasks = [ModelTask(rows_left=rng.randint(5, 25)) for _ in range(spouts)]
        for bolt in range(spouts, spouts + rng.randint(2, 4)):
            inputs = rng.sample(range(bolt), min(bolt, rng.randint(1, 3)))
            self.tasks.append(ModelTask(inputs, places=rng.randint(1, 4), aligner=Aligner(inputs)))
            for source in inputs:
                self.tasks[source].outputs.append(bolt)
        workers = rng.randint(1, 3)
        self._worker = [rng.randrange(workers) for _ in self.tasks]
        edges = [(source, target) for target, task in enumerate(self.tasks) for source in task.inputs]
        self._outlets: dict[Edge, deque[Item]] = {edge: deque() for edge in edges}
        self._held: dict[Edge, int] = {}  # edge → the number behind whose barrier its sender waits
        self._buffers: dict[Edge, deque[tuple[int, Item]]] = {
            (self._worker[source], target): deque()
            for source, target in edges
            if not self._are_together(source, target)
        }
        self._buffer_places = rng.randint(1, 4)
        self._reports: list[tuple[Edge, int]] = []  # ALIGNED, on its way to the source

    # -- the run -----------------------------------------------------------------------------------------------------

    def run(self) -> bool:
        """Run until nothing can move. Returns whether the world has finished; else it is stuck."""
        steps = [
            *((self._work, task) for task in range(len(self.tasks))),
            *((self._send, edge) for edge in self._outlets),
            *((self._deliver, at) for at in self._buffers),
            *((self._control, task) for task in range(len(self.tasks))),
            (self._report, None),
            (self._coordinate, None),
        ]
        moved = True
        while moved:
            # In each round every step is tried once, in a random order: some of them can do something, or none.
            self._rng.shuffle(steps)
            moved = False
            for step, argument in steps:
                moved |= step(argument)  # type: ignore[operator]
        waiting = any(task.mailbox or task.rows_left for task in self.tasks) or any(self._outlets.values())
        return not waiting and self.number >= SNAPSHOTS and self._is_complete()

    def is_consistent(self) -> bool:
        """In each cut: what a target has received from a source is what the source had sent to it."""
        return all(
            received[source] == self.tasks[source].cuts[number][1][target]
            for target, task in enumerate(self.tasks)
            for number, (received, _) in task.cuts.items()
            if number not in self.aborted
            for source in task.inputs
        )

    def is_counted(self) -> bool:
        """At the end every target has received what was sent to it."""
        return all(
            task.received[source] == self.tasks[source].sent[target] == task.aligner.received[source]
            for target, task in enumerate(self.tasks)
            for source in task.inputs
        )

    # -- steps: True if something has moved --------------------------------------------------------------------------

    def _work(self, at: int) -> bool:
        task = self.tasks[at]
        if any(self._outlets[at, target] for target in task.outputs):
            return False  # blocked: a row waits
        if not task.inputs:
            if not task.rows_left:
                return False
            task.rows_left -= 1
            self._emit(at)
            return True
        if not task.mailbox:
            return False
        source, item = task.mailbox.popleft()
        if item is None:
            task.received[source] += 1
            task.aligner.received[source] += 1
            self._emit(at)
        else:
            self._barrier(at, source, *item)
        return True

    def _send(self, edge: Edge) -> bool:
        outlet = self._outlets[edge]
        if not outlet or edge in self._held:
            return False
        source, target = edge
        if self._are_together(source, target):
            if not self._offer(target, source, outlet[0]):
                return False
        else:
            buffer = self._buffers[self._worker[source], target]
            if len(buffer) >= self._buffer_places:
                return False
            buffer.append((source, outlet[0]))
        item = outlet.popleft()
        if item is not None and self.variant is Variant.HOLD and self.tasks[source].number == item[0]:
            self._held[edge] = item[0]
        return True

    def _deliver(self, at: Edge) -> bool:
        buffer = self._buffers[at]
        if buffer and self._offer(at[1], *buffer[0]):
            buffer.popleft()
            return True
        return False

    def _control(self, at: int) -> bool:
        task = self.tasks[at]
        if not task.control or self._rng.random() < 0.5:
            return bool(task.control)
        what, number = task.control.popleft()
        if what == "abort":
            task.aligner.abort(number)
            if task.number <= number:  # else it has received a barrier of a later snapshot already
                task.arrived.clear()
                task.number = number + 1
            self._release(at, number)
        elif not task.inputs:
            self._cut(at, number)
        return True

    def _report(self, _: None) -> bool:
        if not self._reports:
            return False
        edge, number = self._reports.pop(self._rng.randrange(len(self._reports)))
        if self._held.get(edge) == number:
            del self._held[edge]
        return True

    def _coordinate(self, _: None) -> bool:
        """One snapshot at a time; the next begins when all tasks are done, or this one was given up."""
        if self.number and not self._is_complete():
            if not self._aborts or self.number in self.aborted or self._rng.random() > 0.05:
                return False
            self.aborted.add(self.number)
            for task in self.tasks:
                task.control.append(("abort", self.number))
        if self.number >= SNAPSHOTS or self._rng.random() < 0.8:
            return self.number < SNAPSHOTS
        self.number += 1
        for task in self.tasks:
            task.control.append(("trigger", self.number))
        return True

    # -- inside ------------------------------------------------------------------------------------------------------

    def _are_together(self, source: int, target: int) -> bool:
        return self._worker[source] == self._worker[target]

    def _is_complete(self) -> bool:
        return self.number in self.aborted or all(self.number in task.cuts for task in self.tasks)

    def _emit(self, at: int) -> None:
        task = self.tasks[at]
        for target in task.outputs:
            if self._rng.random() < 0.8:
                task.sent[target] += 1
                self._outlets[at, target].append(None)

    def _offer(self, target: int, source: int, item: Item) -> bool:
        task = self.tasks[target]
        if len(task.mailbox) >= task.places or (self.variant is Variant.REFUSE and source in task.arrived):
            return False
        task.mailbox.append((source, item))
        return True

    def _barrier(self, at: int, source: int, number: int, rows: int) -> None:
        task = self.tasks[at]
        result = task.aligner.barrier(source, number, rows)
        if number < task.number or number in task.cuts:
            assert result is None
            return
        if number > task.number:
            task.number = number
            task.arrived.clear()
        task.arrived.add(source)
        if isinstance(result, Lost):
            self.lost.append(result)
        if len(task.arrived) == len(task.inputs):
            # Without a hold, the model takes the snapshot that an aligner refuses.
            assert isinstance(result, Aligned | Lost), "the aligner waits for a barrier that has arrived"
            assert result.number == number
            self._cut(at, number)
        else:
            assert not isinstance(result, Aligned)

    def _cut(self, at: int, number: int) -> None:
        task = self.tasks[at]
        task.number = number
        task.cuts[number] = (Counter(task.received), Counter(task.sent))
        task.arrived.clear()
        self._release(at, number - 1)  # a greater number: the smaller one was given up
        for target in task.outputs:
            self._outlets[at, target].append((number, task.sent[target]))
        if self.variant is Variant.HOLD:
            self._reports += [((source, at), number) for source in task.inputs]

    def _release(self, at: int, number: int) -> None:
        for target in self.tasks[at].outputs:
            if self._held.get((at, target), number + 1) <= number:
                del self._held[at, target]
