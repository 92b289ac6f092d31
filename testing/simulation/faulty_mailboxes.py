"""Faulty mailboxes: between the tasks of a simulated process. They show every message in the trace, and lose some.

    task ── offer, post ──► faulty inbox ──► mailbox of another task
                                ├ lost          a segment, or a control message (INIT, acks, verdicts)
                                ├ repeated      control messages only
                                └ late          control messages only: they overtake one another

1. In production nothing is lost between tasks of one process, and a link that breaks resumes without loss. Segments and
   messages are lost when a worker dies: the promise "at least once" must hold under all faults here.
2. Segments are lost, but neither repeated nor late: links de-duplicate and keep their order before a task gets them.
3. Orders of the cluster (activate, deactivate, stop) are not sent this way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...acker import Acks, Init, Verdicts
from ...topology import Plan, Segment

if TYPE_CHECKING:
    from ...actors import Gate, Inbox, Mailbox, MailboxClosedError, ParkedSender, ReaderState
    from .process import Process


class FaultyMailboxes:
    """All faulty inboxes of one process, for `LocalCluster(mailbox_wrapper=…)`. The fault script sets the rates
    (0 to 1).

    `plan`: of the topology that runs there; the trace names its tasks.
    """

    def __init__(self, process: Process, plan: Plan) -> None:
        self.process = process
        self._plan = plan
        self.chance = process.world.chance.stream(f"wires {process.name}.{process.incarnation}")
        self.segment_loss = 0.0
        self.loss = 0.0
        self.repeat = 0.0
        self.late = 0.0
        self.late_s = 0.0
        self.carried = 0
        self.forced: set[int] = set()

    def __call__(self, source: int, target: int, mailbox: Mailbox) -> Inbox:
        return _FaultyInbox(self, source, target, mailbox)

    def name(self, task_id: int) -> str:
        """The name of a task, as in "count[5]"."""
        plan = self._plan
        component = "topology_master" if task_id == plan.master else plan.tasks[task_id - 1].component
        return f"{component}[{task_id}]"

    def check_fill(self, target: int, box: Mailbox) -> None:
        """No mailbox holds more than its capacity, except on edges inside a cycle."""
        gate = box.gate
        if gate.fill > gate.capacity and target not in self.forced:
            self.process.world.problem(f"the mailbox of {self.name(target)} holds {gate.fill} of {gate.capacity}")

    def record(self, source: int, target: int, message: Any, kind: str = "send") -> None:
        """A message is sent, or lost."""
        self.carried += 1
        what, detail = _described(message)
        world = self.process.world
        world.trace.add(world.now_s, kind, self.name(source), what, self.name(target), detail)


class _FaultyInbox:
    """From one task to one other. (See Inbox.)"""

    __slots__ = ("_box", "_owner", "_source", "_target")

    def __init__(self, owner: FaultyMailboxes, source: int, target: int, mailbox: Mailbox) -> None:
        self._owner = owner
        self._source = source
        self._target = target
        self._box = mailbox

    @property
    def gate(self) -> Gate:
        return self._box.gate

    @property
    def reader(self) -> ReaderState:
        return self._box.reader

    @property
    def closed(self) -> bool:
        return self._box.closed

    @property
    def is_high(self) -> bool:
        return self._box.is_high

    @property
    def pack(self) -> Callable[[Any, Any, Any], Any] | None:
        return self._box.pack

    def offer(self, item: Any, weight: int = 1) -> bool:
        if not self._box.gate.is_open:
            return False
        if self.loses(item):
            return True
        taken = self._box.offer(item, weight)
        self._owner.check_fill(self._target, self._box)
        return taken

    def force(self, item: Any, weight: int = 1) -> bool:
        if self._box.closed:
            return False
        self._owner.forced.add(self._target)
        return self.loses(item) or self._box.force(item, weight)

    def park(self, sender: ParkedSender) -> None:
        self._box.park(_FaultySender(self, sender))

    def post(self, item: Any) -> None:
        owner, chance = self._owner, self._owner.chance
        if owner.loss and chance.random() < owner.loss:
            owner.record(self._source, self._target, item, "lost")
            return
        owner.record(self._source, self._target, item)
        copies = 1 + (bool(owner.repeat) and chance.random() < owner.repeat)
        for _ in range(copies):
            if owner.late and chance.random() < owner.late:
                owner.process.loop.call_later(chance.random() * owner.late_s, self._box.post, item)
            else:
                self._box.post(item)

    def loses(self, segment: Any) -> bool:
        """A segment leaves the sender: is it lost?"""
        owner = self._owner
        lost = bool(owner.segment_loss) and owner.chance.random() < owner.segment_loss
        owner.record(self._source, self._target, segment, "lost" if lost else "send")
        return lost


class _FaultySender:
    """A parked sender, as the mailbox gets it through a faulty inbox."""

    __slots__ = ("_inbox", "_sender")

    def __init__(self, inbox: _FaultyInbox, sender: ParkedSender) -> None:
        self._inbox = inbox
        self._sender = sender

    def next_piece(self) -> tuple[Any, int] | None:
        sender = self._sender
        while (piece := sender.next_piece()) is not None and self._inbox.loses(piece[0]):
            if not sender.has_more():
                return None
        return piece

    def has_more(self) -> bool:
        return self._sender.has_more()

    def refused(self, error: MailboxClosedError) -> None:
        self._sender.refused(error)


def _described(message: Any) -> tuple[str, Any]:
    if isinstance(message, Segment):
        count = len(message.items)
        first = message.row(0) if count and not hasattr(message.items, "batch") else None
        return f"{count} of stream {message.origin.stream!r}", first
    if isinstance(message, Acks):
        failures = f", {len(message.failures)} failures" if message.failures else ""
        resets = f", {len(message.resets)} resets" if message.resets else ""
        return f"acks in {len(message.items)} trees{failures}{resets}", None
    if isinstance(message, Init):
        return f"INIT of {len(message.items)} trees", None
    if isinstance(message, Verdicts):
        kinds = Counter(verdict.kind.name for verdict in message.verdicts)
        return ", ".join(f"{count} {kind}" for kind, count in kinds.items()), None
    return type(message).__name__, None
