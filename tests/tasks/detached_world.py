"""A world of pure machines: a spout's pending, bolts' emitters, ackers' ledgers, and what is under way between them.

Everything that is under way may come in any order, twice or never; rows are held, acked, failed and detached at any
moment. The world knows of each message how many rows of it there are, and what became of them. It checks:

1. no message is acked while a row of it is open, or after one of it was lost or failed;
2. a message is settled once;
3. if nothing was lost or repeated, and no time passed, each message is acked or failed, and by no timeout.
"""

from __future__ import annotations

import random
from collections import Counter
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
    alone,
    in_company,
)
from aiostorm.metrics import TaskCounters
from aiostorm.tasks.branches import MANY, UNTRACKED
from aiostorm.tasks.emitter import Emitter
from aiostorm.tasks.lineage import lineage_of, settle
from aiostorm.topology import Fields, Origin, Same, Segment, Tuple

ORIGIN = Origin("spout", 1, "default", Fields("messages"))
TIMEOUT_S = 10.0


class Acker:
    """One: its ledger, and what is under way to it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.ledger = Ledger(TIMEOUT_S)

    def post(self, message: Any) -> None:
        """A task tells it something."""
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
        self.world.hear(out)

    def expire(self) -> None:
        """Time has passed."""
        out: list[tuple[int, Verdict]] = []
        self.ledger.expire(self.world.now_s, out)
        self.world.hear(out)


class Bolt:
    """One task: what it holds."""

    def __init__(self, world: World) -> None:
        self.world = world
        ackers: Any = world.ackers
        self.ids = IdSource(world.rng.randbytes)
        self.emitter = Emitter("bolt", {}, self.ids, ackers, TaskCounters(), lambda *refused: None)
        self.held: list[Tuple] = []
        self.executed: list[Segment] = []
        self.unsealed: list[tuple[int, Any, Any]] = []  # rows may be detached before these are segments

    def take(self, segment: Segment) -> None:
        """Execute all rows; they are held until something becomes of them."""
        self.emitter.hold(segment)
        self.executed.append(segment)
        self.held += [segment.tuple_at(offset) for offset in range(len(segment.items))]

    def act(self) -> None:
        """Something becomes of a row, or is told of."""
        world, rng = self.world, self.world.rng
        kind = rng.choice(["ack", "ack", "ack", "emit", "emit", "fail", "post", "post", "detach", "detach", "reset"])
        if kind == "post":
            self.post()
        elif kind == "detach":
            if self.executed:
                self.emitter.detach(rng.choice(self.executed), self.ids)
        elif self.held:
            tup = rng.choice(self.held)
            if kind == "emit" and world.rows < 60:
                others = rng.sample(self.held, min(len(self.held), rng.choice([0, 0, 1, 2])))
                self.emit([tup, *others])
            elif kind == "reset":
                self.emitter.resets += {root for root, _ in tup.segment.pairs_of(tup.offset)}
            else:
                self.end(tup, failed=kind == "fail" and rng.random() < 0.3)

    def emit(self, anchors: list[Tuple]) -> None:
        """A child of these, to some bolt."""
        root, mark = lineage_of(anchors)
        if root == UNTRACKED:
            return
        messages = tuple(dict.fromkeys(message for tup in anchors for message in tup[0]))
        count = self.world.rng.choice([1, 1, 2])
        marks: Any = Same(mark, count) if self.world.rng.random() < 0.3 else [mark] * count
        self.world.open_rows.update(messages * count)
        self.unsealed.append((root, [messages] * count, marks))

    def post(self) -> None:
        """As Emitter.flush does: what was emitted first."""
        unsealed, self.unsealed = self.unsealed, []
        for root, items, marks in unsealed:
            segment = self.emitter.segment(ORIGIN, items, marks, root)
            assert root != MANY or segment.lineage is not None
            self.world.put(segment)
        self.emitter.post()

    def end(self, tup: Tuple, *, failed: bool) -> None:
        """Acked, or failed."""
        self.held.remove(tup)
        assert settle(tup.segment, tup.offset)
        if failed:
            self.emitter.failures += [(*pair, "failed") for pair in tup.segment.pairs_of(tup.offset)]
            self.world.spoilt.update(tup[0])
        self.world.open_rows.subtract(tup[0])
        self.emitter.settled(tup.segment, tup.offset)


class World:
    """All of them. `harm`: what is under way may be lost or come twice, and time may pass."""

    def __init__(self, seed: int, *, harm: bool) -> None:
        self.rng = random.Random(seed)
        self.harm = harm
        self.now_s = 1_000.0
        self.rows = 0
        self.under_way: list[tuple[Acker | Bolt, Any]] = []
        self.ackers = [Acker(self) for _ in range(self.rng.choice([1, 1, 2, 3]))]
        self.bolts = [Bolt(self) for _ in range(3)]
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
        while self.under_way or any(bolt.held or bolt.unsealed or bolt.emitter.dirty for bolt in self.bolts):
            if self.under_way:
                self.deliver(self.rng.randrange(len(self.under_way)))
            for bolt in self.bolts:
                while bolt.held:
                    bolt.end(self.rng.choice(bolt.held), failed=False)
                    bolt.act()
                bolt.post()
        if not self.harmed:
            assert not self.pending.message_ids()
            for acker in self.ackers:  # (a failure that is told at once, and comes late, is a stray)
                assert not acker.ledger._rows
                assert not acker.ledger._complete
                assert not any(stray.xor for stray in acker.ledger._strays.values())
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
        root = alone(self.ids.take()) if count == 1 else in_company(self.ids.take())
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

    def hear(self, out: list[tuple[int, Verdict]]) -> None:
        """As tasks.fates does."""
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
