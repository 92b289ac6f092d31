"""Planted bugs: each puts a mistake that was made, or could be made, into the running code. Only tests call this.

A context manager per bug replaces one method and puts it back. Each must be found by the storms within 50 seeds
(test_planted.py); what finds none of them would find nothing of ours either.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from aiostorm.acker import AckerActor, Acks, IdSource, Ledger, Pending, Verdict
from aiostorm.actors import Gate, Lanes
from aiostorm.cluster import RunningTopology
from aiostorm.runtime import LoopClock
from aiostorm.tasks.detaching import Detacher
from aiostorm.tasks.emit import detached, lineage
from aiostorm.tasks.emit.ack_batch import AckBatch
from aiostorm.tasks.emit.emitter import Emitter
from aiostorm.tasks.emit.outbox import Outlet
from aiostorm.tasks.emit.waiting import WaitingSegment
from aiostorm.tasks.message_outcomes import MessageOutcomes
from aiostorm.topology import AllGrouping, Row, Segment

from .planting import Plant, replaced

BUGS: dict[str, Plant] = {}

FIRST_LOOK = {
    # Seeds that found a bug some time ago: the test looks there first. (Any change to the code may move them.)
    "a second INIT is accepted": 15,
    "rows are not detached": 15,
    "a sub tree is reported before the edge is done": 15,
    "a sub tree has another acker": 15,
    "one of ten thousand acks is dropped": 12,
    "rows never expire": 6,
    "an ACK passes messages whose FAIL was lost": 34,
    "edges of an open segment are reported": 37,
    "an anchor that is named twice cancels itself": 11,
    "the pieces of a segment share an edge": 18,
    "a sent segment overtakes a parked one": 3,
    "parked rows are sent twice": 4,
    "all grouping leaves one out": 3,
    "only one parked sender is woken": 10,
    "the gate closes one piece late": 18,
    "deadlines use the wall clock": 77,
    "a FAIL before its INIT is dropped": 0,
    "a failed message stays open": 18,
    "a spout relies on the acker for timeouts": 6,
    "edge ids collide": 18,
    "an edge is acked before its children": 18,
    "activate is forgotten": 23,
}


def bug(owner: Any, name: str) -> Callable[[Callable[[Any], Any]], Callable[[Any], Any]]:
    """Register a planted bug: the function is given the original method, and returns the broken one."""

    def register(make: Callable[[Any], Any]) -> Callable[[Any], Any]:
        BUGS[make.__name__.replace("_", " ")] = lambda: replaced(owner, name, make(getattr(owner, name)))
        return make

    return register


# -- the acker ---------------------------------------------------------------------------------------------------------


@bug(Ledger, "init")
def a_second_INIT_is_accepted(original: Any) -> Any:  # noqa: N802
    """Finding 2 of our survey: it XORs itself to zero, and that is an ACK before any work was done."""

    def init(self: Ledger, owner: int, root: int, xor: int, now_s: float, out: list[tuple[int, Verdict]]) -> None:
        if root in self._rows:
            self.ack(((root, xor),), now_s, out)
        else:
            original(self, owner, root, xor, now_s, out)

    return init


@bug(Ledger, "fail")
def a_FAIL_before_its_INIT_is_dropped(original: Any) -> Any:  # noqa: N802
    """JStorm's acker does this."""

    def fail(self: Ledger, root: int, index: int, failure: Any, now_s: float, out: list[tuple[int, Verdict]]) -> None:
        if root in self._rows:
            original(self, root, index, failure, now_s, out)

    return fail


@bug(Ledger, "expire")
def rows_never_expire(original: Any) -> Any:
    """STORM-2786: the acker's map was never rotated."""
    return lambda self, now_s, out: None


@bug(MessageOutcomes, "on_verdict")
def an_ACK_passes_messages_whose_FAIL_was_lost(original: Any) -> Any:  # noqa: N802
    """Ours: the simulation found it."""

    async def on_verdict(self: MessageOutcomes, verdict: Verdict) -> None:
        if verdict.kind.name == "ACK":
            verdict = Verdict(verdict.kind, verdict.root)
        await original(self, verdict)

    return on_verdict


@bug(Pending, "failed")
def a_failed_message_stays_open(original: Any) -> Any:
    """It fails, and is acked with the rest of its tree."""

    def failed(self: Pending, root: int, index: int, failure: Any) -> Any:
        tree = self._trees.get(root)
        return None if tree is None else tree.settle(index, failure)

    return failed


@bug(Pending, "overdue")
def a_spout_relies_on_the_acker_for_timeouts(original: Any) -> Any:
    """STORM-2359: a lost INIT, or a dead acker, and the message is open for ever."""
    return lambda self, now_s: []


@bug(IdSource, "_draw")
def edge_ids_collide(original: Any) -> Any:
    """STORM-17: ids that collide."""
    return lambda self: [number & 7 or 1 for number in original(self)]


# -- tasks -------------------------------------------------------------------------------------------------------------


@bug(AckBatch, "done")
def an_edge_is_acked_before_its_children(original: Any) -> Any:
    """The edge that is done is sent apart from those that were made of it, and before them."""

    def done(self: AckBatch, segment: Segment) -> None:
        if segment.root and segment.lineage is None:
            self._ackers[segment.root % len(self._ackers)].post(Acks([(segment.root, segment.edge)]))
            if segment in self._held:
                self._release(segment)
        else:
            original(self, segment)

    return done


@bug(AckBatch, "_keep_back")
def edges_of_an_open_segment_are_reported(original: Any) -> Any:
    """Ours: the simulation found it."""
    return lambda self: None


@bug(lineage, "joined")
def an_anchor_that_is_named_twice_cancels_itself(original: Any) -> Any:
    """The XOR of an edge with itself."""

    def joined(pairs: Any) -> Any:
        named = list(pairs)
        once = [pair for pair in named if named.count(pair) % 2]
        return original(once)

    return joined


@bug(Emitter, "_send")
def the_pieces_of_a_segment_share_an_edge(original: Any) -> Any:
    """A segment that is cut in two is one edge, done twice."""

    def send(self: Emitter, outlet: Outlet, origin: Any, items: Sequence[Any], anchors: Any, root: int) -> None:
        piece = outlet.piece
        if len(items) <= piece or anchors is None or root == -1:
            original(self, outlet, origin, items, anchors, root)
            return
        whole = self.edges.segment(origin, items, anchors, root)
        for start in range(0, len(items), piece):
            stop = start + piece
            outlet.send(Segment(origin, items[start:stop], root, whole.edge, anchors[start:stop]))

    return send


@bug(Outlet, "send")
def a_sent_segment_overtakes_a_parked_one(original: Any) -> Any:
    """Order is kept per target, they say."""

    def send(self: Outlet, segment: Segment) -> None:
        if self.parked:
            self._ready.appendleft(segment)
        else:
            original(self, segment)

    return send


@bug(WaitingSegment, "take")
def parked_rows_are_sent_twice(original: Any) -> Any:
    """Those that are taken first are left where they are: the next target gets them, too, with other edges."""
    last: list[WaitingSegment] = []

    def take(self: WaitingSegment, target: int, most: int) -> Segment | None:
        at, rest = self._at, self._rest
        piece: Segment | None = original(self, target, most)
        if piece is not None and not self.is_empty and self not in last:
            last[:] = [self]
            self._at, self._rest = at, rest
        return piece

    return take


@bug(AllGrouping, "split")
def all_grouping_leaves_one_out(original: Any) -> Any:
    """The last of the targets."""

    def split(self: AllGrouping, rows: Sequence[Row], anchors: Any) -> Any:
        shares = original(self, rows, anchors)
        return shares[:-1] if len(shares) > 1 else shares

    return split


@bug(Detacher, "executed")
def rows_are_not_detached(original: Any) -> Any:
    """Ours, until trees of a turn let go of held rows: all messages of the turn wait for one."""
    return lambda self, segment: None


@bug(AckBatch, "post")
def a_sub_tree_is_reported_before_the_edge_is_done(original: Any) -> Any:
    """In a message of its own: if that is lost, the tree is complete without it, and its message is acked."""

    def post(self: AckBatch) -> None:
        if self._open:
            self._keep_back()
        sub_trees, self._detached = self._detached, []
        for i, acker in enumerate(self._ackers):
            mine = [each for each in sub_trees if each[0] % len(self._ackers) == i]
            if mine:
                acker.post(Acks([], detached=mine))
        original(self)

    return post


@bug(detached, "single_root")
def a_sub_tree_has_another_acker(original: Any) -> Any:
    """Its edges go to one that knows nothing of it."""
    return lambda number, root, ackers: original(number, root + 1, ackers)


@bug(AckerActor, "receive")
def one_of_ten_thousand_acks_is_dropped(original: Any) -> Any:
    """Where nothing can be lost, no message may time out."""
    numbers = itertools.count(1)

    def receive(self: AckerActor, message: Any) -> Any:
        if type(message) is Acks and next(numbers) % 10_000 == 1_000:
            return None
        return original(self, message)

    return receive


# -- mailboxes, time, steering -----------------------------------------------------------------------------------------


@bug(Lanes, "_open")
def only_one_parked_sender_is_woken(original: Any) -> Any:
    """A lost wake-up: the others wait for ever, if the mailbox is not filled again."""

    def open_gate(self: Lanes) -> None:
        while len(self._parked) > 1:
            self._parked.pop()
        original(self)

    return open_gate


@bug(Gate, "accept_last")
def the_gate_closes_one_piece_late(original: Any) -> Any:
    """What comes above the high mark is let in, and so is the next."""

    def accept_last(self: Gate, fill: int, weight: int) -> None:
        if fill > self.capacity:
            self.is_open = False

    return accept_last


@bug(LoopClock, "__init__")
def deadlines_use_the_wall_clock(original: Any) -> Any:
    """storm PR 207: a clock that jumps back makes all timers late."""

    def init(self: LoopClock, *args: Any) -> None:
        original(self, *args)
        self.monotonic = self.now

    return init


@bug(RunningTopology, "_set_active")
def activate_is_forgotten(original: Any) -> Any:
    """jstorm#404: the message that lets the spouts go on is lost."""

    def set_active(self: RunningTopology, active: bool) -> None:
        if active and self.state == "INACTIVE":
            self.state = type(self.state)("ACTIVE")
        else:
            original(self, active)

    return set_active
