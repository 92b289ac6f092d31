"""A source that spout tasks of several workers read: a queue outside of all of them, as a broker is.

    SharedState ── reader(task) ─► Reader ─► next_tuple, ack, fail of one instance of that spout task

1. What an instance has taken and not settled goes back when the task's next instance opens: its worker has died.
2. An instance that has a running successor is fenced: it is given nothing, and what it settles counts for nothing. (Its
   worker was replaced while it was frozen, and goes on.) If the successor dies first, it is its turn again.
3. An attempt has a number, over all readers.
"""

from __future__ import annotations

import heapq
import random
from collections import Counter
from typing import Any

from aiostorm import Failure
from aiostorm.testing.simulation import World
from aiostorm.testing.simulation.endpoints import _SourceState

from ..parts import ModelSource


class SharedState(_SourceState):
    """What all readers share."""

    def __init__(self, world: World, name: str, rows: list[Any], max_replays: int | None) -> None:
        super().__init__(world, name, rows, max_replays)
        self.readers: dict[int, Reader] = {}

    def offer_in_bursts(self, chance: random.Random, begin_s: float, end_s: float) -> None:
        """Spread the rows over this time (true seconds): often many at once, more than bolts can take."""
        bursts = [chance.uniform(begin_s, end_s) for _ in range(chance.choice((1, 5, 10, 20, 1000)))]
        self.offers_s = sorted(chance.choice(bursts) for _ in self.rows)

    def reader(self, task_id: int) -> Reader:
        """For a new instance of this task."""
        if not self.readers:
            self.begin(1)
        made = Reader(self, task_id)
        self.hand_over(made)
        return made

    def hand_over(self, reader: Reader) -> None:
        """From now on this one is given the task's messages."""
        before = self.readers.get(reader.task_id)
        self.readers[reader.task_id] = reader
        if before is not None:
            before.revoked.update(before.open)
            for message in before.open:
                self.open.discard(message)
                heapq.heappush(self.queue, (self.world.now_s, message))
            before.open.clear()


class Reader:
    """What one instance of a spout task has for a book."""

    def __init__(self, shared: SharedState, task_id: int) -> None:
        self.world = shared.world
        self.name = shared.name
        self.rows = shared.rows
        self.emitted: Counter[int] = Counter()
        """Message → its attempt, of those that this instance has taken."""
        self.open: dict[int, None] = {}
        self.revoked: set[int] = set()
        """Those that were open when it was fenced."""
        self.task_id = task_id
        self._shared = shared
        self._incarnation = shared.world.current.current

    @property
    def alive(self) -> bool:
        """Does the process run in which it is?"""
        return self._incarnation.alive

    @property
    def fenced(self) -> bool:
        """Has it a successor?"""
        return self._shared.readers[self.task_id] is not self

    def begin(self, incarnation: int) -> None:
        """See _SourceState: the shared has begun."""

    def next_due(self) -> int | None:
        """The next message that is due."""
        if self.fenced:
            if self._shared.readers[self.task_id].alive:
                return None
            self._shared.hand_over(self)
        message = self._shared.next_due()
        if message is not None:
            # One that was revoked stays so: both of its attempts are settled (see settles_former).
            self.emitted[message] = self._shared.emitted[message]
            self.open[message] = None
        return message

    def settles_former(self, message: Any) -> bool:
        """Whether this outcome is of the attempt that was revoked, and the message was taken again by this instance.

        The framework has the message twice then, under one id. The outcome that comes first counts as the former one's.
        """
        if message not in self.revoked or message not in self.open:
            return False
        self.revoked.discard(message)
        return True

    def settle(self, message: Any, failure: Failure | None) -> None:
        """The framework says what became of a message."""
        if not self.world.current.effect():
            return
        if message not in self.open:
            if message in self.revoked:
                self.revoked.discard(message)
                return
            how = "acked" if failure is None else "failed"
            self.world.problem(f"message {message} of {self.name!r} is {how}, but it is not open")
            return
        del self.open[message]
        self._shared.settle(message, failure)


class SpreadSource(ModelSource):
    """A spout on a shared."""

    def __init__(self, world: World, name: str, rows: Any, fields: Any, max_replays: int | None) -> None:
        super().__init__(world, name, rows, fields, max_replays)
        self.shared = self._state = SharedState(world, name, self._state.rows, max_replays)

    def __deepcopy__(self, memo: dict[int, Any]) -> SpreadSource:
        view = super().__deepcopy__(memo)
        assert isinstance(view, SpreadSource)
        view.shared = self.shared
        return view

    def open(self, context: Any, collector: Any) -> None:
        reader: Any = self.shared.reader(context.task_id)
        self._state = reader
        super().open(context, collector)

    def ack(self, message_id: Any) -> None:
        if not self._state.settles_former(message_id):
            super().ack(message_id)

    def fail(self, message_id: Any, failure: Any) -> None:
        if not self._state.settles_former(message_id):
            super().fail(message_id, failure)
