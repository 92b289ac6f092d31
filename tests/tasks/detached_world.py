"""A world of pure machines: a spout's pending, bolts' emitters, ackers' ledgers, and what is under way between them.

Everything that is under way may come in any order, twice or never; rows are held, acked, failed and detached at any
moment, of basic bolts also before they are executed, and in the middle of a slice. The world knows of each message how
many rows of it there are, and what became of them. It checks:

1. no message is acked while a row of it is open, or after one of it was lost or failed;
2. a message is settled once;
3. if nothing was lost or repeated, and no time passed, each message is acked or failed, and by no timeout.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from typing import Any

from aiostorm.acker import (
    Acks,
    IdSource,
    Init,
    Ledger,
    Pending,
    Settled,
    Tree,
    Verdict,
    VerdictKind,
    shared_root,
    single_root,
)
from aiostorm.metrics import TaskCounters
from aiostorm.tasks.emit.ack_batch import AckBatch
from aiostorm.tasks.emit.detached import Detached
from aiostorm.tasks.emit.emitter import Emitter
from aiostorm.tasks.emit.lineage import MANY, UNTRACKED, lineage_of, mark_done
from aiostorm.tasks.emit.out_streams import OutStreams
from aiostorm.topology import Fields, Origin, RepeatedAnchor, Segment, Tuple

from .parts import tracer

ORIGIN = Origin("spout", 1, "default", Fields("messages"))
TIMEOUT_S = 10.0


class Acker:
    """One: its ledger, and what is under way to it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.ledger = Ledger(TIMEOUT_S)

    def post(self, message: Any) -> None:
        """A message of a task."""
        self.world.under_way.append((self, message))

    def take(self, message: Any) -> None:
        """As AckerActor does."""
        out: list[tuple[int, Verdict]] = []
        now_s, ledger = self.world.now_s, self.ledger
        if isinstance(message, Init):
            for root, xor in message.items:
                ledger.init(message.owner, root, xor, now_s, out)
        else:
            assert isinstance(message, Acks)
            for root, index, failure in message.failures or ():
                ledger.fail(root, index, failure, now_s, out)
            ledger.detach(message.detached or (), now_s, out)
            ledger.ack(message.items, now_s, out)
            for root in message.resets or ():
                ledger.reset(root, now_s, out)
        self.world.on_verdicts(out)

    def expire(self) -> None:
        """Time has passed."""
        out: list[tuple[int, Verdict]] = []
        self.ledger.expire(self.world.now_s, out)
        self.world.on_verdicts(out)


class Bolt:
    """One task: what it holds."""

    def __init__(self, world: World) -> None:
        self.world = world
        ackers: Any = world.ackers
        self.ids = IdSource(world.rng.randbytes)
        counters = TaskCounters()
        acks = AckBatch(ackers, counters, tracer())
        self.emitter = Emitter(OutStreams("bolt", {}), self.ids, acks, counters, lambda *refused: None, stopwatch=float)
        self.held: list[Tuple] = []
        self.executed: list[Segment] = []
        self.unsealed: list[tuple[int, Any, Any]] = []  # rows may be detached before these are segments

    def take(self, segment: Segment) -> None:
        """Execute all rows; they are held until something becomes of them."""
        self.emitter.acks.withhold(segment)
        self.executed.append(segment)
        self.held += [segment.tuple_at(offset) for offset in range(len(segment.items))]

    def act(self) -> None:
        """A row is acked or failed, or something is sent."""
        world, rng = self.world, self.world.rng
        kind = rng.choice(["ack", "ack", "ack", "emit", "emit", "fail", "post", "post", "detach", "detach", "reset"])
        if kind == "post":
            self.post()
        elif kind == "detach":
            if self.executed:
                self.emitter.acks.detach(rng.choice(self.executed), self.ids)
        elif self.held:
            tup = rng.choice(self.held)
            if kind == "emit" and world.rows < 60:
                others = rng.sample(self.held, min(len(self.held), rng.choice([0, 0, 1, 2])))
                self.emit([tup, *others])
            elif kind == "reset":
                self.emitter.acks.resets += {root for root, _ in tup.segment.pairs_of(tup.offset)}
            else:
                self.end(tup, failed=kind == "fail" and rng.random() < 0.3)

    def emit(self, anchors: list[Tuple]) -> None:
        """A child of these, to some bolt."""
        root, anchor = lineage_of(anchors)
        if root == UNTRACKED:
            return
        messages = tuple(dict.fromkeys(message for tup in anchors for message in tup[0]))
        count = self.world.rng.choice([1, 1, 2])
        anchors: Any = RepeatedAnchor(anchor, count) if self.world.rng.random() < 0.3 else [anchor] * count
        self.world.open_rows.update(messages * count)
        self.unsealed.append((root, anchors, [messages] * count))

    @property
    def busy(self) -> bool:
        """Is there anything to do, or to send?"""
        return bool(self.held or self.unsealed or self.emitter.dirty)

    def finish(self) -> None:
        """All that is held is acked."""
        while self.held:
            self.end(self.world.rng.choice(self.held), failed=False)
            self.act()

    def post(self) -> None:
        """As Emitter.flush does: what was emitted first."""
        unsealed, self.unsealed = self.unsealed, []
        for root, anchors, items in unsealed:
            segment = self.emitter.edges.segment(ORIGIN, items, anchors, root)
            assert root != MANY or segment.lineage is not None
            self.world.put(segment)
        self.emitter.acks.post()

    def end(self, tup: Tuple, *, failed: bool) -> None:
        """Acked, or failed."""
        self.held.remove(tup)
        assert mark_done(tup.segment, tup.offset)
        if failed:
            self.emitter.acks.failures += [(*pair, "failed") for pair in tup.segment.pairs_of(tup.offset)]
            self.world.spoilt.update(tup[0])
        self.world.open_rows.subtract(tup[0])
        self.emitter.acks.settled(tup.segment, tup.offset)


class Basic(Bolt):
    """One whose rows are done when they have been executed, as tasks.bolt_task does it, slice by slice."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.queue: deque[Segment] = deque()
        self.start = 0  # rows of the first that are executed

    def take(self, segment: Segment) -> None:
        """It waits."""
        self.queue.append(segment)

    def act(self) -> None:
        """A slice is executed, or something that waits is detached, or all is sent."""
        kind = self.world.rng.choice(["run", "run", "run", "post", "detach"])
        if kind == "post" or not self.queue:
            self.post()
        elif kind == "detach":
            segment = self.world.rng.choice(self.queue)
            self.emitter.acks.detach(segment, self.ids, self.start if segment is self.queue[0] else 0)
        else:
            self.run()

    @property
    def busy(self) -> bool:
        """See Bolt."""
        return bool(self.queue) or super().busy

    def finish(self) -> None:
        """All that waits is executed."""
        while self.queue:
            self.run()

    def run(self) -> None:
        """A slice of the first segment. User code may be suspended in each row of it."""
        segment, start, rng = self.queue[0], self.start, self.world.rng
        stop = min(start + rng.choice([1, 2, 6]), len(segment.items))
        emits = rng.random() < 0.7 and self.world.rows < 60
        if emits and rng.random() < 0.5:  # a function: as many rows as came, under the very same anchors
            for offset in range(start, stop):
                self.world.open_rows.update(segment.items[offset])
            self.unsealed.append((*self.anchors(segment, start, stop), segment.items[start:stop]))
        else:
            for offset in range(start, stop):
                self.execute(segment, offset, emits=emits)
        for offset in range(start, stop):
            self.world.open_rows.subtract(segment.items[offset])
        self.start = stop if stop < len(segment.items) else 0
        if not self.start:
            self.queue.popleft()
        if isinstance(segment.lineage, Detached):
            self.emitter.acks.executed(segment, stop)
            return
        segment.open -= stop - start
        if segment.open:
            self.emitter.acks.withhold(segment)
        else:
            self.emitter.acks.done(segment)

    def execute(self, segment: Segment, offset: int, *, emits: bool) -> None:
        """One row."""
        rng = self.world.rng
        if rng.random() < 0.2:
            self.emitter.acks.withhold(segment)
            self.post()
            if rng.random() < 0.5:
                self.emitter.acks.detach(segment, self.ids, offset)
        if emits:
            self.world.open_rows.update(segment.items[offset])
            self.unsealed.append((*self.anchors(segment, offset, offset + 1), [segment.items[offset]]))
        elif rng.random() < 0.1:
            self.emitter.acks.failures += [(*pair, "failed") for pair in segment.pairs_of(offset)]
            self.world.spoilt.update(segment.items[offset])

    def anchors(self, segment: Segment, start: int, stop: int) -> tuple[int, Any]:
        """The root and the anchors, as executors lend them."""
        anchors: Any = segment.indices if segment.lineage is None else segment.lineage.pairs
        whole = start == 0 and stop == len(segment.items)
        return MANY if segment.lineage is not None else segment.root, anchors if whole else anchors[start:stop]


class World:
    """All of them. `harm`: what is under way may be lost or come twice, and time may pass."""

    def __init__(self, seed: int, *, harm: bool) -> None:
        self.rng = random.Random(seed)
        self.harm = harm
        self.now_s = 1_000.0
        self.rows = 0
        self.under_way: list[tuple[Acker | Bolt, Any]] = []
        self.ackers = [Acker(self) for _ in range(self.rng.choice([1, 1, 2, 3]))]
        self.bolts = [Bolt(self), Bolt(self), Basic(self), Basic(self)]
        self.ids = IdSource(self.rng.randbytes)
        self.pending = Pending(TIMEOUT_S * 1.05)
        self.open_rows: Counter[int] = Counter()
        self.spoilt: set[int] = set()
        self.settled: dict[int, Any] = {}
        self.emitted = 0
        self.harmed = False

    def run(self, steps: int) -> None:
        """Live, and end."""
        rng = self.rng
        for _ in range(steps):
            kind = rng.random()
            if kind < 0.08 and self.emitted < 30:
                self.emit(rng.choice([1, 1, 2, 3, 6]))
            elif kind < 0.5 and self.under_way:
                self.deliver(rng.randrange(len(self.under_way)))
            elif kind < 0.51 and self.harm:
                self.pass_time(rng.choice([1.0, 6.0]))
            else:
                rng.choice(self.bolts).act()
        self.end()

    def end(self) -> None:
        """What is under way comes, what is held is acked; then time passes."""
        while self.under_way or any(bolt.busy for bolt in self.bolts):
            if self.under_way:
                self.deliver(self.rng.randrange(len(self.under_way)))
            for bolt in self.bolts:
                bolt.finish()
                bolt.post()
        if not self.harmed:
            assert not self.pending.message_ids()
            for acker in self.ackers:  # (a failure that is sent at once, and comes late, is a stray)
                assert not acker.ledger._rows
                assert not acker.ledger._complete
                assert not any(stray.xor for stray in acker.ledger._early_rows.values())
            assert {message for message, failure in self.settled.items() if failure} == self.spoilt
        for _ in range(4):
            self.pass_time(TIMEOUT_S * 0.6)
        assert not len(self.pending)
        assert self.pending.count == 0
        assert set(self.settled) == set(range(self.emitted))
        assert all(not len(acker.ledger) for acker in self.ackers)

    def emit(self, count: int) -> None:
        """A tree: each message goes to some bolts, a segment a bolt."""
        messages = range(self.emitted, self.emitted + count)
        self.emitted += count
        root = single_root(self.ids.take()) if count == 1 else shared_root(self.ids.take())
        self.pending.add(root, messages, None, 0, self.now_s)
        xor = 0
        for _ in range(self.rng.choice([1, 1, 2])):
            some = sorted(self.rng.sample(range(count), self.rng.randint(1, count)))
            indices = sorted(self.rng.choices(some, k=len(some)))  # several rows of one message
            edge = self.ids.take()
            xor ^= edge
            self.send(Segment(ORIGIN, [(messages[index],) for index in indices], root, edge, indices))
        self.ackers[root % len(self.ackers)].post(Init(7, [(root, xor)]))

    def send(self, segment: Segment) -> None:
        """A new one."""
        for messages in segment.items:
            self.open_rows.update(messages)
        self.put(segment)

    def put(self, segment: Segment) -> None:
        """To some bolt."""
        self.rows += len(segment.items)
        self.under_way.append((self.rng.choice(self.bolts), segment))

    def deliver(self, at: int) -> None:
        """It comes; or it is lost, or comes again later."""
        to, what = self.under_way.pop(at)
        luck = self.rng.random() if self.harm else 1.0
        if luck < 0.03:
            self.harmed = True
            if isinstance(what, Segment):
                for messages in what.items:
                    self.spoilt.update(messages)
            return
        if luck < 0.08 and isinstance(to, Acker):
            self.harmed = True
            self.under_way.append((to, what))
        to.take(what)

    def pass_time(self, by_s: float) -> None:
        """In steps, as the sweeps come."""
        self.harmed = True
        for _ in range(4):
            self.now_s += by_s / 4
            for acker in self.ackers:
                acker.expire()
            for key in self.pending.overdue(self.now_s):
                for settled in self.pending.expired(key, "timeout"):
                    self.settle(settled)

    def on_verdicts(self, out: list[tuple[int, Verdict]]) -> None:
        """As tasks.outcomes does."""
        pending = self.pending
        for _, verdict in out:
            root, index = verdict.root, verdict.index
            if verdict.kind is VerdictKind.ACK and index >= 0:
                self.acked(pending.message_acked(root, index))
            elif verdict.kind is VerdictKind.ACK:
                for failed, failure in (verdict.failure or {}).items():
                    self.settle(pending.failed(root, failed, failure))
                self.acked(pending.acked(root, verdict.left))
            elif verdict.kind is VerdictKind.FAIL:
                self.settle(pending.failed(root, index, verdict.failure))
            elif verdict.kind is VerdictKind.EXPIRED:
                for settled in pending.expired(root, "timeout"):
                    self.settle(settled)
            else:
                pending.reset(root, self.now_s, index)

    def acked(self, tree: Tree | None) -> None:
        """Messages are."""
        for settled in [] if tree is None else tree.settled():
            assert not self.open_rows[settled.message_id], "acked before its last row"
            assert settled.message_id not in self.spoilt, "acked though a row of it failed or was lost"
            self.settle(settled)

    def settle(self, settled: Settled | None) -> None:
        """Once."""
        if settled is not None:
            assert settled.message_id not in self.settled
            self.settled[settled.message_id] = settled.failure
