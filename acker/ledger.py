"""The ledger: which trees are complete, with one row of constant size per root.

Every edge (one per segment and root) is XORed into the row of its root twice: when it is made and when it is done. The
row is zero when, and in practice only when, every edge that was made is done.

    spout ── INIT(root, xor of its edges) ─┐
    bolt ─── ACK(root, done ^ made) ───────┼─► row ──► zero after INIT      ACK      every open message is acked
    bolt ─── FAIL(root, index) ────────────┘       ──► FAIL after INIT      FAIL     that message fails, at once
                                                   ──► deadline             EXPIRED  every open message fails
    (an ACK names the messages that failed before or were detached: the others are acked)

    bolt ─── DETACH(root, index, sub, edge) with ACK(root, … ^ edge by which the row came)
             sub-tree and tree are zero      ACK(index)       that message is acked
             a tuple of it fails, deadline   FAIL(index)      that message fails, and no other

1. These may arrive in any order: what arrives before INIT makes an early row, which also keeps the indices of failed
   and detached messages. Early rows expire too, without a verdict, even if trees do not: an INIT may never arrive.
2. A row ends exactly once: with ACK or EXPIRED, or without a verdict when its owner says that all its open messages
   have failed (`forget`). Anything that arrives for its root afterwards makes an early row.
3. Rows are in the order of their INITs (or resets), so expiry only looks at the rows that are due.
4. A row has constant size, except for messages that failed or were detached: these are kept, once each, because the
   final ACK names them. So a lost or late verdict FAIL cannot turn a failed message into an acked one.
5. XOR is not idempotent: a second INIT would make an unprocessed tree look complete. While a row exists, a second INIT
   is ignored. Safety needs no other rule against repetition:

   **The row is zero only if every frame of the tree has arrived.** Let S be the frames that arrived an odd number of
   times; the others cancel out. INIT is in S, once. An edge is in two frames: in the frame of the task that made it,
   and in the frame of the task that is done with it. If the sum over S is zero, then for each frame in S that made an
   edge, the frame that is done with that edge is also in S. From INIT on, this leads to every leaf, provided that an
   edge is always made in the frame of the edge that it was made from; the sender of ACKs ensures that
   (tasks/emit/ack_batch.py). A FAIL arrives in the frame of the edge that failed, or before it and again in it. (Edges
   are 64 random bits; another sum is zero by chance with a probability of 2**-64.) Simulated: tests/simulation, where
   frames of every kind, and segments, are lost one by one.

   So repetition by a link is harmless: an ACK that arrives an even number of times counts as if it had not arrived, and
   the tree expires and is replayed instead of being acked falsely; an odd number of times counts as once. A repeated
   FAIL is a repeated verdict, which Pending ignores; a repeated reset restarts the clock again. An INIT that is
   repeated after the end makes a row for a root that is no longer pending: Pending ignores its verdicts. Links remove
   duplicates before the ledger only to avoid trees that expire needlessly.

   What must not happen is the same work under other edges: a frame is repeated unchanged, or not at all.

6. **A detached row leaves its tree**: the frame that is done with the edge by which the row came also names the root
   under which its message continues. That is a DETACH: the INIT of a sub-tree, with one edge, for the rows of one
   message that one segment brought. Rule 5 holds for the sub-tree as for any tree, with DETACH instead of INIT: its
   edge is made in that frame, and is done in the later frame that contains what was made from those rows. It still
   holds for the tree: the edge by which the rows came is done, and all that was made from it *before* is in that same
   frame. It does not matter whether those rows have been executed: rows that wait behind a call that does not end are
   detached too, and so is the row of that call. From these, nothing was made before, or it was already emitted.

   **A message is acked only when all frames about it have arrived.** When the row of the tree is zero, every frame of
   the tree has arrived (5), and so has every DETACH: all sub-trees are known (`left` in the ACK), and no more will be
   added. Each of them is zero only if all its own frames have arrived. So a DETACH must never be separated from the
   edge that is done in its frame: if it were lost alone, the tree would be zero without it, and its message would be
   acked.

   A DETACH of a known sub-tree is ignored, and so is everything that arrives for a zero tree while its sub-trees are
   open, including an INIT: otherwise a repeated tree would be zero again and would ack messages that are still
   detached. A sub-tree that ended before its tree is zero, and whose DETACH is repeated, is open again until it is zero
   again or expires. A sub-tree has one message and is not split again: a DETACH of it leaves its message open for ever.

7. A sub-tree has the same acker as its tree and ends with it: with EXPIRED, with `forget`, and with an expired early
   row. Its clock starts with the DETACH and bounds what is kept here. The deadline of the message itself, counted from
   its emit, belongs to Pending. A zero tree has no clock: it stays as long as its sub-trees.

Storm: org.apache.storm.daemon.Acker. Departures: a FAIL before INIT is remembered (JStorm drops it); a FAIL names the
message within the tree, and does not end the row; expiry is by deadline, not by rotating buckets (which expire a tree
after one to two timeouts); the ACK makes up for a lost FAIL (in Storm the tree times out, since the edge of a failed
tuple is never acked). Sub-trees are ours: Storm's trees have one message.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Final

from ..topology import Failure

EARLY_TIMEOUT_S: Final = 3600.0
"""Seconds that an early row waits for its INIT if trees do not expire: longer than any link should be down."""

TIMED_OUT: Final = Failure("timeout")

_ALONE: Final = 1 << 63
"""The bit of a root whose tree has a single message: such a tree is never split, and every task can see that. 63 random
bits are enough for a root, which only has to be unlikely to repeat: to forge an ack, an attacker must guess the 64 bits
of an edge."""


class VerdictKind(enum.Enum):
    """The kinds of verdicts about a root."""

    ACK = "ack"
    FAIL = "fail"
    EXPIRED = "expired"
    RESET = "reset"
    """Not an end: the clock of the tree was restarted."""


Failures = dict[int, Failure]
"""Failed messages of a tree, by index."""
Reported = Failure | Failures | None
"""What a FAIL (or an ACK: by index) says about failures."""


class Verdict:
    """A verdict about a root. A FAIL is about one message (`index`), with the reported `failure`.

    An ACK is about one message (`index`), or about all messages except the failed ones (`failure`) and those in `left`,
    which were detached and are still open. A RESET is about one message, or about all.
    """

    __slots__ = ("failure", "index", "kind", "left", "root")

    def __init__(
        self, kind: VerdictKind, root: int, index: int = -1, failure: Reported = None, left: tuple[int, ...] = ()
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


Decided = list[tuple[int, Verdict]]
"""Verdicts with the owners of their trees, in the order of the decisions."""


class _Messages:
    """The single messages of a tree that failed or were detached: their failures and open sub-trees.

    `owner` is None until INIT has arrived.
    """

    __slots__ = ("failures", "open", "owner", "root")

    def __init__(self, root: int, owner: int | None) -> None:
        self.root = root
        self.owner = owner
        self.failures: Failures = {}
        self.open: dict[int, tuple[int, ...]] = {}

    def opens(self, index: int, root: int) -> None:
        """The message stays open until the sub-tree of this root has ended."""
        self.open[index] = (*self.open.get(index, ()), root)

    def ends(self, index: int, root: int) -> bool:
        """The sub-tree has ended. Was it the last one of its message?"""
        left = tuple(other for other in self.open.get(index, ()) if other != root)
        if left:
            self.open[index] = left
            return False
        return self.open.pop(index, None) is not None


class _TreeRow:
    """A row after INIT. 64 bytes; `since_s` is the caller's float object, which the rows of one message share."""

    __slots__ = ("owner", "since_s", "xor")

    def __init__(self, xor: int, owner: int, since_s: float) -> None:
        self.xor = xor
        self.owner = owner
        self.since_s = since_s


class _NotedRow(_TreeRow):
    """The row of a tree with failed or detached messages."""

    __slots__ = ("messages",)

    def __init__(self, xor: int, owner: int, since_s: float, messages: _Messages) -> None:
        super().__init__(xor, owner, since_s)
        self.messages = messages


class _SubRow(_TreeRow):
    """The row of a sub-tree of message `index`; `messages` (and the owner) are those of its tree."""

    __slots__ = ("index", "messages")

    def __init__(self, xor: int, since_s: float, messages: _Messages, index: int) -> None:
        super().__init__(xor, -1, since_s)
        self.messages = messages
        self.index = index


class _EarlyRow:
    """A row before its INIT."""

    __slots__ = ("messages", "since_s", "xor")

    def __init__(self, since_s: float) -> None:
        self.xor = 0
        self.since_s = since_s
        self.messages: _Messages | None = None


class Ledger:
    """The XOR table. `timeout_s=None`: trees never expire. Times are monotonic seconds and never go back.

    Every method appends its verdicts to `out`.
    """

    __slots__ = ("_complete", "_early_rows", "_rows", "_timeout_s", "early_timeout_s")

    def __init__(self, timeout_s: float | None) -> None:
        self._rows: dict[int, _TreeRow] = {}
        self._early_rows: dict[int, _EarlyRow] = {}
        self._complete: dict[int, _Messages] = {}  # zero trees with open sub-trees
        self._timeout_s = timeout_s
        self.early_timeout_s = EARLY_TIMEOUT_S if timeout_s is None else timeout_s

    def __len__(self) -> int:
        return len(self._rows) + len(self._early_rows) + len(self._complete)

    def __contains__(self, root: object) -> bool:
        return root in self._rows or root in self._early_rows or root in self._complete

    def time_out_after(self, timeout_s: float) -> None:
        """Set another timeout, for open trees too: their order stays the same."""
        self._timeout_s = self.early_timeout_s = timeout_s

    @property
    def may_expire(self) -> bool:
        """Is there anything that can expire?"""
        return bool(self._early_rows) or (self._timeout_s is not None and bool(self._rows))

    def init(self, owner: int, root: int, xor: int, now_s: float, out: Decided) -> None:
        """A spout task `owner` has emitted the tree of `root`: start its clock. `xor` is over its first edges."""
        if root in self._rows or root in self._complete:
            return  # repeated
        early = self._early_rows.pop(root, None) if self._early_rows else None
        if early is None and xor:
            self._rows[root] = _TreeRow(xor, owner, now_s)
            return
        row = _TreeRow(xor, owner, now_s)
        if early is not None:
            row.xor ^= early.xor
            if early.messages is not None:
                row = _NotedRow(row.xor, owner, now_s, early.messages)
                early.messages.owner = owner
                for index, failure in early.messages.failures.items():
                    out.append((owner, Verdict(VerdictKind.FAIL, root, index, failure)))
        self._rows[root] = row
        if not row.xor:
            self.ack(((root, 0),), now_s, out)

    def ack(self, items: Iterable[tuple[int, int]], now_s: float, out: Decided) -> None:
        """Edges were done and made: (root, xor over both) for each root."""
        rows = self._rows
        for root, xor in items:
            row = rows.get(root)
            if row is None:
                if root not in self._complete:
                    self._early_row(root, now_s).xor ^= xor
                continue
            row.xor ^= xor
            if not row.xor:
                del rows[root]
                if type(row) is _TreeRow:
                    out.append((row.owner, Verdict(VerdictKind.ACK, root)))
                elif isinstance(row, _NotedRow):
                    self._completed(row.owner, row.messages, out)
                elif isinstance(row, _SubRow):
                    self._sub_ended(root, row, out)

    def detach(self, items: Iterable[tuple[int, int, int, int]], now_s: float, out: Decided) -> None:
        """Rows were detached: (root, index of their message, root of the sub-tree, its first edge) for each.

        Call it before the `ack` of the same frame, which contains the edges by which the rows came.
        """
        for root, index, sub, edge in items:
            if root in self._complete:
                continue  # repeated: all of them had arrived before the tree was zero
            of = self._rows.get(root)
            if isinstance(of, _SubRow):
                of.messages.opens(of.index, sub)  # breaks the rules: the message is never acked
                continue
            messages = self._messages_of(root, now_s)
            row = self._rows.get(sub)
            if row is not None:
                if not (isinstance(row, _SubRow) and row.messages is messages):
                    messages.opens(index, sub)  # breaks the rules too
                continue
            messages.opens(index, sub)
            early = self._early_rows.pop(sub, None)
            if early is not None:
                edge ^= early.xor
            self._rows[sub] = _SubRow(edge, now_s, messages, index)
            if early is not None and early.messages is not None:
                for failure in early.messages.failures.values():
                    self._fail_message(messages, index, failure, out)
                for others in early.messages.open.values():
                    for other in others:
                        messages.opens(index, other)
            if not edge:
                self.ack(((sub, 0),), now_s, out)

    def fail(self, root: int, index: int, failure: Failure, now_s: float, out: Decided) -> None:
        """A tuple of message `index` of the tree failed. (Its edge is completed by `ack`, like any other.)"""
        row = self._rows.get(root)
        if isinstance(row, _SubRow):
            self._fail_message(row.messages, row.index, failure, out)
        elif root not in self._complete:
            self._fail_message(self._messages_of(root, now_s), index, failure, out)

    def reset(self, root: int, now_s: float, out: Decided) -> None:
        """Restart the clock of a tree. (The clock of an early row starts with its INIT anyway.)

        For a sub-tree, restart the clocks of all sub-trees of its message, and of the tree if it is not complete.
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

    def expire(self, now_s: float, out: Decided) -> None:
        """End the rows whose deadline has passed; early rows end without a verdict."""
        if self._timeout_s is not None:
            for root in _due(self._rows, now_s, self._timeout_s):
                row = self._rows.pop(root, None)
                if isinstance(row, _SubRow):
                    self._fail_message(row.messages, row.index, TIMED_OUT, out)
                    self._sub_ended(root, row, out)
                elif row is not None:  # (a sub-tree may just have ended with its tree)
                    out.append((row.owner, Verdict(VerdictKind.EXPIRED, root)))
                    self._drop(row)
        for root in _due(self._early_rows, now_s, self.early_timeout_s):
            self._drop(self._early_rows.pop(root))

    def forget(self, owner: int) -> None:
        """The trees of this owner have failed: remove their rows. Later frames for their roots make early rows."""
        for root in [root for root, row in self._rows.items() if row.owner == owner]:
            self._drop(self._rows.pop(root))
        for root in [root for root, messages in self._complete.items() if messages.owner == owner]:
            self._drop_subs(self._complete.pop(root))

    def clear(self) -> None:
        """Remove everything."""
        self._rows.clear()
        self._early_rows.clear()
        self._complete.clear()

    def _completed(self, owner: int, messages: _Messages, out: Decided) -> None:
        """The row is zero: all frames of the tree have arrived, so all its sub-trees are known."""
        left = tuple(index for index in messages.open if index not in messages.failures)
        out.append((owner, Verdict(VerdictKind.ACK, messages.root, failure=dict(messages.failures) or None, left=left)))
        if messages.open:
            self._complete[messages.root] = messages

    def _sub_ended(self, root: int, row: _SubRow, out: Decided) -> None:
        messages, index = row.messages, row.index
        last = messages.ends(index, root)
        if messages.owner is None or self._complete.get(messages.root) is not messages:
            return  # the tree is not zero yet: its ACK will settle the message
        if last and index not in messages.failures:
            out.append((messages.owner, Verdict(VerdictKind.ACK, messages.root, index)))
        if not messages.open:
            del self._complete[messages.root]

    def _fail_message(self, messages: _Messages, index: int, failure: Failure, out: Decided) -> None:
        if index not in messages.failures:
            messages.failures[index] = failure
            if messages.owner is not None:
                out.append((messages.owner, Verdict(VerdictKind.FAIL, messages.root, index, failure)))

    def _messages_of(self, root: int, now_s: float) -> _Messages:
        """The failed and detached messages of a tree whose row is not zero."""
        row = self._rows.get(root)
        if row is None:
            early = self._early_row(root, now_s)
            if early.messages is None:
                early.messages = _Messages(root, None)
            return early.messages
        if not isinstance(row, _NotedRow):
            row = self._rows[root] = _NotedRow(row.xor, row.owner, row.since_s, _Messages(root, row.owner))
        return row.messages

    def _restart(self, root: int, row: _TreeRow, now_s: float) -> None:
        del self._rows[root]
        row.since_s = now_s
        self._rows[root] = row  # at the end: rows are in the order of their deadlines

    def _drop(self, ended: _TreeRow | _EarlyRow) -> None:
        """A tree has ended before it was complete: end its sub-trees too."""
        if isinstance(ended, _NotedRow | _EarlyRow) and ended.messages is not None:
            self._drop_subs(ended.messages)

    def _drop_subs(self, messages: _Messages) -> None:
        messages.owner = None
        for subs in messages.open.values():
            for sub in subs:
                row = self._rows.get(sub)
                if isinstance(row, _SubRow) and row.messages is messages:
                    del self._rows[sub]

    def _early_row(self, root: int, now_s: float) -> _EarlyRow:
        early = self._early_rows.get(root)
        if early is None:
            early = self._early_rows[root] = _EarlyRow(now_s)
        return early


def _due(table: dict[int, _TreeRow] | dict[int, _EarlyRow], now_s: float, timeout_s: float) -> list[int]:
    due: list[int] = []
    for root, row in table.items():
        if row.since_s + timeout_s > now_s:
            break
        due.append(root)
    return due


def single_root(root: int, like: int = 0, ackers: int = 1) -> int:
    """This root, marked as the root of a single-message tree. Of `ackers` ackers it has the same one as root `like`."""
    root |= _ALONE
    if ackers == 1:
        return root
    root += (like - root) % ackers
    return root if root < 1 << 64 else root - ackers


def shared_root(root: int) -> int:
    """This root, marked as the root of a tree of several messages."""
    return root & ~_ALONE or 1


def is_single_root(root: int) -> bool:
    """Does the tree of this root have a single message?"""
    return root >= _ALONE
