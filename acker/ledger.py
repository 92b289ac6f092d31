"""The ledger: which trees are complete, in one constant-size row per root.

Every edge (one per segment and root) is XORed into its root's row twice: when it is made and when it is done. The row
is zero when, and practically only when, every edge that was made is done.

    spout ── INIT(root, xor of its edges) ─┐
    bolt ─── ACK(root, done ^ made) ───────┼─► row ──► zero after INIT      ACK      every open message is acked
    bolt ─── FAIL(root, index) ────────────┘       ──► FAIL, INIT seen      FAIL     that message fails, at once
                                                   ──► deadline             EXPIRED  every open message fails
    (an ACK names the messages that failed before, and those that are left: the others are acked)

    bolt ─── DETACH(root, index, sub, edge) with ACK(root, … ^ edge by which the row came)
                      sub-tree zero, and the tree     ACK(index)       that message is acked
                      a tuple of it fails, deadline   FAIL(index)      that message fails, and no other

1. The kinds come in any order: what comes before INIT is a stray, which collects, and remembers which messages failed
   and have left. Strays expire too, in silence, also where trees do not: an INIT may never come.
2. A row ends exactly once: ACK or EXPIRED, or in silence, where its owner says that it has failed all that it had open
   (`forget`). What comes for its root afterwards is a stray.
3. Rows are in the order of their INITs (or resets), so expiry looks only at those that are due.
4. A row is constant size, but for messages that failed or left: those are kept, once each, since the ACK at the end
   names them. So a verdict FAIL that was lost, or is late, cannot turn a failed message into an acked one.
5. XOR is not idempotent: one INIT more would turn an unprocessed tree into a success. While a row lives, a second INIT
   is ignored. That is the one rule against repetition that safety needs, for then:

   **The row is zero only if every frame of the tree has come.** Let S be the frames that came an odd number of times;
   the others cancel themselves. INIT is in S, once. An edge is in two frames: that of its maker and that of whoever was
   done with it. If the sum over S is zero, then with each frame in S that made an edge, the frame that is done with it
   is in S too; from INIT on, that leads to every leaf, as long as an edge is made in the frame of the edge that it was
   made of: whoever sends ACKs sees to that (`tasks.account`). A FAIL comes in the frame of the edge that failed, or
   before and in that frame again. (Edges are 64 random bits; that other sums vanish by chance has a probability of
   2**-64 each.) Simulated: tests/simulation, where frames of every kind, and segments, are lost one by one.

   So, of what a link may repeat: an ACK that comes an even number of times counts as never come: the tree does not
   complete, it expires and is replayed; never a false ACK. An odd number of times counts as once. A repeated FAIL is a
   repeated verdict, which Pending ignores; a repeated reset restarts the clock again. An INIT that comes again after
   the end makes a row for a root that nobody waits for: whatever it says is ignored by Pending. Links de-duplicate
   before anything reaches the ledger: for the sake of the trees that would expire for nothing.

   What may not happen is the same work under other edges: a frame is repeated as it was, or not at all.

6. **A row that is held leaves its tree**: the frame that is done with the edge by which it came says under which root
   its message goes on. That is a DETACH: the INIT of a sub-tree, with one edge, for the rows that one segment brought
   of one message. Rule 5 holds of the sub-tree as of any tree, with DETACH for INIT: its edge is made in that frame,
   and is done in the frame that has what was made of those rows later. It holds of the tree as before: the edge by
   which the rows came is done, and all that was made of it *before* is in that same frame.
   Whether those rows have been executed plays no part in it: so rows leave, too, that wait behind a call that does not
   end, and the row of that call itself. Of these what was made before is nothing, or was emitted by then.

   **A message is acked only when all frames have come that tell of it.** When the row of the tree is zero, every frame
   of it has come (5), so every DETACH of it has: all sub-trees are known (`left` in the ACK), and none is added after.
   Each of them is zero only if all its own frames have come. So a DETACH is never apart from the edge that is done in
   its frame: were it lost alone, the tree would be zero without it, and its message acked.

   A DETACH of a sub-tree that is known is ignored, and so is everything that comes for a tree that is zero as long as
   sub-trees of it are open: an INIT among them, or a repeated tree would be zero again, and ask for nothing that is
   left. A sub-tree that has ended before its tree is zero, and is told of again, is open again until it is zero again
   or expires. A sub-tree is of one message, and is not split again: a DETACH of it leaves its message open for good.

7. A sub-tree has the acker of its tree and ends with it: in EXPIRED, in `forget`, and with a stray that expires. Its
   clock starts with the DETACH: it bounds what is kept here. The message's own deadline, which counts from its emit, is
   Pending's. A tree that is zero has no clock: it lasts as long as its sub-trees.

Storm: org.apache.storm.daemon.Acker. Departures: FAIL before INIT is remembered (JStorm drops it); a FAIL names the
message within the tree, and does not end the row; expiry is by deadline, not by rotating buckets (theirs fires between
one and two timeouts); a lost FAIL is made good by the ACK (theirs is left to the timeout, since they never ack the edge
of a failed tuple). Sub-trees are ours: Storm's trees are of one message.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Any, Final

from ..topology import Failure

STRAY_TIMEOUT_S: Final = 3600.0
"""How long a stray waits for its INIT where trees do not expire: longer than any link is expected to be down."""

TIMED_OUT: Final = Failure("timeout")


class VerdictKind(enum.Enum):
    """What the ledger has to say of a root."""

    ACK = "ack"
    FAIL = "fail"
    EXPIRED = "expired"
    RESET = "reset"
    """Not an end: the tree's clock was restarted."""


class Verdict:
    """A decision about a root; for FAIL about one message of it (`index`), with the `failure` that was reported.

    An ACK is of one message (`index`), or of all but those that failed (`failure` has them) and those in `left`, which
    have left the tree and are still open. A RESET is of one message, or of all.
    """

    __slots__ = ("failure", "index", "kind", "left", "root")

    def __init__(
        self, kind: VerdictKind, root: int, index: int = -1, failure: Any = None, left: tuple[int, ...] = ()
    ) -> None:
        self.kind = kind
        self.root = root
        self.index = index
        self.failure = failure
        self.left = left

    def __repr__(self) -> str:
        at = f", index={self.index}" if self.index >= 0 else ""
        why = f", {self.failure!r}" if self.kind is VerdictKind.FAIL else ""
        left = f", left={self.left}" if self.left else ""
        return f"Verdict({self.kind.name}, {self.root:#x}{at}{why}{left})"


class _Messages:
    """What is known of single messages of a tree: which failed, and by which sub-trees one is open.

    `owner` is None as long as INIT was not seen.
    """

    __slots__ = ("failures", "open", "owner", "root")

    def __init__(self, root: int, owner: int | None) -> None:
        self.root = root
        self.owner = owner
        self.failures: dict[int, Any] = {}
        self.open: dict[int, tuple[int, ...]] = {}

    def opens(self, index: int, root: int) -> None:
        """The message is open until the sub-tree of this root has ended."""
        self.open[index] = (*self.open.get(index, ()), root)

    def ends(self, index: int, root: int) -> bool:
        """The sub-tree has ended. Was it the last one of its message?"""
        left = tuple(other for other in self.open.get(index, ()) if other != root)
        if left:
            self.open[index] = left
            return False
        return self.open.pop(index, None) is not None


class _Row:
    """INIT was seen. 64 bytes; `since_s` is the caller's float, which the rows of one message share."""

    __slots__ = ("owner", "since_s", "xor")

    def __init__(self, xor: int, owner: int, since_s: float) -> None:
        self.xor = xor
        self.owner = owner
        self.since_s = since_s


class _NotedRow(_Row):
    """The row of a tree of which messages failed, or have left it."""

    __slots__ = ("messages",)

    def __init__(self, xor: int, owner: int, since_s: float, messages: _Messages) -> None:
        super().__init__(xor, owner, since_s)
        self.messages = messages


class _SubRow(_Row):
    """The row of a sub-tree: of one message, `index`, of the tree that `messages` is of. (Its owner is that tree's.)"""

    __slots__ = ("index", "messages")

    def __init__(self, xor: int, since_s: float, messages: _Messages, index: int) -> None:
        super().__init__(xor, -1, since_s)
        self.messages = messages
        self.index = index


class _Stray:
    """INIT was not seen."""

    __slots__ = ("messages", "since_s", "xor")

    def __init__(self, since_s: float) -> None:
        self.xor = 0
        self.since_s = since_s
        self.messages: _Messages | None = None


class Ledger:
    """The XOR table. `timeout_s=None`: trees never expire. Times are monotonic seconds and never go back.

    Every method appends its verdicts to `out`, a list of (owner, verdict), in the order they were reached.
    """

    __slots__ = ("_complete", "_rows", "_strays", "_timeout_s", "stray_timeout_s")

    def __init__(self, timeout_s: float | None) -> None:
        self._rows: dict[int, _Row] = {}
        self._strays: dict[int, _Stray] = {}
        self._complete: dict[int, _Messages] = {}  # the trees that are zero, and have sub-trees that are not
        self._timeout_s = timeout_s
        self.stray_timeout_s = STRAY_TIMEOUT_S if timeout_s is None else timeout_s

    def __len__(self) -> int:
        return len(self._rows) + len(self._strays) + len(self._complete)

    def __contains__(self, root: object) -> bool:
        return root in self._rows or root in self._strays or root in self._complete

    def time_out_after(self, timeout_s: float) -> None:
        """Another timeout, for trees that are open too: they stay in order."""
        self._timeout_s = self.stray_timeout_s = timeout_s

    @property
    def may_expire(self) -> bool:
        """Is there anything that time will end?"""
        return bool(self._strays) or (self._timeout_s is not None and bool(self._rows))

    def init(self, owner: int, root: int, xor: int, now_s: float, out: list[tuple[int, Verdict]]) -> None:
        """A spout task `owner` has emitted the tree of `root`, and the clock runs; `xor` is over its first edges."""
        if root in self._rows or root in self._complete:
            return  # repeated
        stray = self._strays.pop(root, None) if self._strays else None
        if stray is None and xor:
            self._rows[root] = _Row(xor, owner, now_s)
            return
        row = _Row(xor, owner, now_s)
        if stray is not None:
            row.xor ^= stray.xor
            if stray.messages is not None:
                row = _NotedRow(row.xor, owner, now_s, stray.messages)
                stray.messages.owner = owner
                for index, failure in stray.messages.failures.items():
                    out.append((owner, Verdict(VerdictKind.FAIL, root, index, failure)))
        self._rows[root] = row
        if not row.xor:
            self.ack(((root, 0),), now_s, out)

    def ack(self, items: Iterable[tuple[int, int]], now_s: float, out: list[tuple[int, Verdict]]) -> None:
        """Edges were done and made: (root, xor over both) for each root."""
        rows = self._rows
        for root, xor in items:
            row = rows.get(root)
            if row is None:
                if root not in self._complete:
                    self._stray(root, now_s).xor ^= xor
                continue
            row.xor ^= xor
            if not row.xor:
                del rows[root]
                if type(row) is _Row:
                    out.append((row.owner, Verdict(VerdictKind.ACK, root)))
                elif isinstance(row, _NotedRow):
                    self._completed(row.owner, row.messages, out)
                elif isinstance(row, _SubRow):
                    self._sub_ended(root, row, out)

    def detach(self, items: Iterable[tuple[int, int, int, int]], now_s: float, out: list[tuple[int, Verdict]]) -> None:
        """Rows have left their trees: (root, index of their message, root of the sub-tree, its first edge) for each.

        To be called before the `ack` that comes with it, in which the edges are done that the rows came by.
        """
        for root, index, sub, edge in items:
            if root in self._complete:
                continue  # repeated: all of them have come before it was zero
            of = self._rows.get(root)
            if isinstance(of, _SubRow):
                of.messages.opens(of.index, sub)  # against the rules: the message is never acked
                continue
            messages = self._messages_of(root, now_s)
            row = self._rows.get(sub)
            if row is not None:
                if not (isinstance(row, _SubRow) and row.messages is messages):
                    messages.opens(index, sub)  # against the rules as well
                continue
            messages.opens(index, sub)
            stray = self._strays.pop(sub, None)
            if stray is not None:
                edge ^= stray.xor
            self._rows[sub] = _SubRow(edge, now_s, messages, index)
            if stray is not None and stray.messages is not None:
                for failure in stray.messages.failures.values():
                    self._fail_message(messages, index, failure, out)
                for others in stray.messages.open.values():
                    for other in others:
                        messages.opens(index, other)
            if not edge:
                self.ack(((sub, 0),), now_s, out)

    def fail(self, root: int, index: int, failure: Any, now_s: float, out: list[tuple[int, Verdict]]) -> None:
        """A tuple of message `index` of the tree was failed. (Its edge is completed by `ack`, like any other.)"""
        row = self._rows.get(root)
        if isinstance(row, _SubRow):
            self._fail_message(row.messages, row.index, failure, out)
        elif root not in self._complete:
            self._fail_message(self._messages_of(root, now_s), index, failure, out)

    def reset(self, root: int, now_s: float, out: list[tuple[int, Verdict]]) -> None:
        """Restart the clock of a tree. (That of a stray starts with its INIT anyway.)

        Of a sub-tree: that of its message, which is all its sub-trees; and of the tree, if it is not complete.
        """
        row = self._rows.get(root)
        if row is None:
            return
        if not isinstance(row, _SubRow):
            self._restart(root, row, now_s)
            out.append((row.owner, Verdict(VerdictKind.RESET, root)))
            return
        messages, index = row.messages, row.index
        for sub in messages.open.get(index, ()):
            other = self._rows.get(sub)
            if isinstance(other, _SubRow) and other.messages is messages:
                self._restart(sub, other, now_s)
        if messages.owner is not None:
            if self._complete.get(messages.root) is messages:
                out.append((messages.owner, Verdict(VerdictKind.RESET, messages.root, index)))
            else:
                self.reset(messages.root, now_s, out)

    def expire(self, now_s: float, out: list[tuple[int, Verdict]]) -> None:
        """End the rows whose deadline has come; a stray ends in silence."""
        if self._timeout_s is not None:
            for root in _due(self._rows, now_s, self._timeout_s):
                row = self._rows.pop(root, None)
                if isinstance(row, _SubRow):
                    self._fail_message(row.messages, row.index, TIMED_OUT, out)
                    self._sub_ended(root, row, out)
                elif row is not None:  # (a sub-tree may just have ended with its tree)
                    out.append((row.owner, Verdict(VerdictKind.EXPIRED, root)))
                    self._drop(row)
        for root in _due(self._strays, now_s, self.stray_timeout_s):
            self._drop(self._strays.pop(root))

    def forget(self, owner: int) -> None:
        """Its trees have failed without us: what comes for their roots are strays."""
        for root in [root for root, row in self._rows.items() if row.owner == owner]:
            self._drop(self._rows.pop(root))
        for root in [root for root, messages in self._complete.items() if messages.owner == owner]:
            self._drop_subs(self._complete.pop(root))

    def clear(self) -> None:
        """Forget everything."""
        self._rows.clear()
        self._strays.clear()
        self._complete.clear()

    def _completed(self, owner: int, messages: _Messages, out: list[tuple[int, Verdict]]) -> None:
        """The row is zero: all frames of the tree have come, so all its sub-trees are known."""
        left = tuple(index for index in messages.open if index not in messages.failures)
        out.append((owner, Verdict(VerdictKind.ACK, messages.root, failure=dict(messages.failures) or None, left=left)))
        if messages.open:
            self._complete[messages.root] = messages

    def _sub_ended(self, root: int, row: _SubRow, out: list[tuple[int, Verdict]]) -> None:
        messages, index = row.messages, row.index
        last = messages.ends(index, root)
        if messages.owner is None or self._complete.get(messages.root) is not messages:
            return  # the tree is not zero: its ACK will see to it
        if last and index not in messages.failures:
            out.append((messages.owner, Verdict(VerdictKind.ACK, messages.root, index)))
        if not messages.open:
            del self._complete[messages.root]

    def _fail_message(self, messages: _Messages, index: int, failure: Any, out: list[tuple[int, Verdict]]) -> None:
        if index not in messages.failures:
            messages.failures[index] = failure
            if messages.owner is not None:
                out.append((messages.owner, Verdict(VerdictKind.FAIL, messages.root, index, failure)))

    def _messages_of(self, root: int, now_s: float) -> _Messages:
        """What is known of the messages of a tree whose row is not zero."""
        row = self._rows.get(root)
        if row is None:
            stray = self._stray(root, now_s)
            if stray.messages is None:
                stray.messages = _Messages(root, None)
            return stray.messages
        if not isinstance(row, _NotedRow):
            row = self._rows[root] = _NotedRow(row.xor, row.owner, row.since_s, _Messages(root, row.owner))
        return row.messages

    def _restart(self, root: int, row: _Row, now_s: float) -> None:
        del self._rows[root]
        row.since_s = now_s
        self._rows[root] = row  # at the end: the order is that of the deadlines

    def _drop(self, ended: _Row | _Stray) -> None:
        """A tree has ended before it was complete: its sub-trees end with it."""
        if isinstance(ended, _NotedRow | _Stray) and ended.messages is not None:
            self._drop_subs(ended.messages)

    def _drop_subs(self, messages: _Messages) -> None:
        messages.owner = None
        for subs in messages.open.values():
            for sub in subs:
                row = self._rows.get(sub)
                if isinstance(row, _SubRow) and row.messages is messages:
                    del self._rows[sub]

    def _stray(self, root: int, now_s: float) -> _Stray:
        stray = self._strays.get(root)
        if stray is None:
            stray = self._strays[root] = _Stray(now_s)
        return stray


def _due(table: dict[int, _Row] | dict[int, _Stray], now_s: float, timeout_s: float) -> list[int]:
    due: list[int] = []
    for root, row in table.items():
        if row.since_s + timeout_s > now_s:
            break
        due.append(root)
    return due
