"""What stands between backpressure monitors, topology master and tasks: it loses, repeats and delays what they say
about pressure.

Tuples, acks and verdicts are not sent this way: their senders have the mailbox itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from aiostorm.actors import Inbox, Mailbox
from aiostorm.backpressure import Clear, Pace, Readings
from aiostorm.testing.simulation import World

if TYPE_CHECKING:
    from aiostorm.testing.simulation.process import Process


class PressureMailboxes:
    """`loss`, `repeat`, `late`: rates, 0 to 1; `every`: each so manieth is lost, besides (0: none)."""

    def __init__(self, process: Process, master: int) -> None:
        self.process = process
        self.world: World = process.world
        self.chance = process.world.chance.stream("pressure wires")
        self.loss = self.repeat = self.late = self.late_s = 0.0
        self.every = 0
        self.counts: Counter[str] = Counter()
        self.sent_s: dict[int, float] = {}
        """Task → when it was given an order, the last time."""
        self.harmed_s = -1.0
        """When something was not as it should be, the last time."""
        self.on_order: Callable[[], float] | None = None
        """Called with the next order: how many seconds it takes."""
        self._master = master

    def __call__(self, source: int, target: int, mailbox: Mailbox) -> Inbox:
        """See `aiostorm.tasks.MailboxWrapper`."""
        if self._master not in (source, target):
            return mailbox
        faulty: Any = _FaultyInbox(self, source, target, mailbox)
        return faulty

    def send(self, source: int, target: int, mailbox: Mailbox, message: Any) -> None:
        """A message about pressure."""
        chance, kind = self.chance, type(message).__name__
        assert isinstance(message, (Readings, Pace, Clear)), message
        self.counts[kind] += 1
        lost = bool(self.every) and self.counts.total() % self.every == 0
        if lost or (self.loss and chance.random() < self.loss):
            self._trace(source, target, message, "lost")
            self.harmed_s = self.world.now_s
            return
        self._trace(source, target, message, "send")
        if self.on_order is not None and isinstance(message, Pace):
            takes, self.on_order = self.on_order, None
            self.process.loop.call_later(takes(), self._deliver, target, mailbox, message)
            return
        for _ in range(1 + (bool(self.repeat) and chance.random() < self.repeat)):
            if self.late and chance.random() < self.late:
                self.harmed_s = self.world.now_s + self.late_s
                self.process.loop.call_later(chance.random() * self.late_s, self._deliver, target, mailbox, message)
            else:
                self._deliver(target, mailbox, message)

    def _deliver(self, target: int, mailbox: Mailbox, message: Any) -> None:
        if isinstance(message, Pace):
            self.sent_s[target] = self.world.now_s
        mailbox.post(message)

    def _trace(self, source: int, target: int, message: Any, kind: str) -> None:
        what = type(message).__name__
        if isinstance(message, Pace):
            what = f"Pace {message.change.value} {message.step}"
        self.world.trace.add(self.world.now_s, kind, f"[{source}]", what, f"[{target}]", message)


class _FaultyInbox:
    """From one to one other. (Of an Inbox, what is asked of it.)"""

    __slots__ = ("_box", "_owner", "_source", "_target")

    def __init__(self, mailboxes: PressureMailboxes, source: int, target: int, mailbox: Mailbox) -> None:
        self._owner, self._source, self._target, self._box = mailboxes, source, target, mailbox

    def post(self, item: Any) -> None:
        self._owner.send(self._source, self._target, self._box, item)
