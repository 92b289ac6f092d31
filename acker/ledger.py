"""The ledger: which trees are complete, in one constant-size row per root.

Every edge (one per segment and root) is XORed into its root's row twice: when it is made and when it is done. The row
is zero when, and practically only when, every edge that was made is done.

    spout ── INIT(root, xor of its edges) ─┐
    bolt ─── ACK(root, done ^ made) ───────┼─► row ──► zero after INIT      ACK      every open message is acked
    bolt ─── FAIL(root, index) ────────────┘       ──► FAIL, INIT seen      FAIL     that message fails, at once
                                                   ──► deadline             EXPIRED  every open message fails
    (an ACK names the messages that failed before: the others are acked)

1. The three kinds come in any order: what comes before INIT is a stray, which collects, and remembers which messages
   failed. Strays expire too, in silence, also where trees do not: an INIT may never come.
2. A row ends exactly once: ACK or EXPIRED, or in silence, where its owner says that it has failed all that it had open
   (`forget`). What comes for its root afterwards is a stray.
3. Rows are in the order of their INITs (or resets), so expiry looks only at those that are due.
4. A row is constant size, but for messages that failed: those are kept, once each, since the ACK at the end names them
   again. So a verdict FAIL that was lost, or is late, cannot turn a failed message into an acked one.
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

Storm: org.apache.storm.daemon.Acker. Departures: FAIL before INIT is remembered (JStorm drops it); a FAIL names the
message within the tree, and does not end the row; expiry is by deadline, not by rotating buckets (theirs fires between
one and two timeouts); a lost FAIL is made good by the ACK (theirs is left to the timeout, since they never ack the edge
of a failed tuple).
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Any, Final

STRAY_TIMEOUT_S: Final = 3600.0
"""How long a stray waits for its INIT where trees do not expire: longer than any link is expected to be down."""


class VerdictKind(enum.Enum):
    """What the ledger has to say of a root."""

    ACK = "ack"
    FAIL = "fail"
    EXPIRED = "expired"
    RESET = "reset"
    """Not an end: the tree's clock was restarted."""


class Verdict:
    """A decision about a root; for FAIL about one message of it (`index`), with the `failure` that was reported."""

    __slots__ = ("failure", "index", "kind", "root")

    def __init__(self, kind: VerdictKind, root: int, index: int = -1, failure: Any = None) -> None:
        self.kind = kind
        self.root = root
        self.index = index
        self.failure = failure

    def __repr__(self) -> str:
        at = f", index={self.index}, {self.failure!r}" if self.kind is VerdictKind.FAIL else ""
        return f"Verdict({self.kind.name}, {self.root:#x}{at})"


class _Row:
    """INIT was seen. 64 bytes; `since_s` is the caller's float, which the rows of one message share."""

    __slots__ = ("owner", "since_s", "xor")

    def __init__(self, xor: int, owner: int, since_s: float) -> None:
        self.xor = xor
        self.owner = owner
        self.since_s = since_s


class _FailedRow(_Row):
    """A message of the tree failed: what was said of it is said again at the end."""

    __slots__ = ("failures",)

    def __init__(self, xor: int, owner: int, since_s: float) -> None:
        super().__init__(xor, owner, since_s)
        self.failures: dict[int, Any] = {}


class _Stray:
    """INIT was not seen."""

    __slots__ = ("failures", "since_s", "xor")

    def __init__(self, since_s: float) -> None:
        self.xor = 0
        self.since_s = since_s
        self.failures: dict[int, Any] | None = None


class Ledger:
    """The XOR table. `timeout_s=None`: trees never expire. Times are monotonic seconds and never go back.

    Every method appends its verdicts to `out`, a list of (owner, verdict), in the order they were reached.
    """

    __slots__ = ("_rows", "_strays", "_timeout_s", "stray_timeout_s")

    def __init__(self, timeout_s: float | None) -> None:
        self._rows: dict[int, _Row] = {}
        self._strays: dict[int, _Stray] = {}
        self._timeout_s = timeout_s
        self.stray_timeout_s = STRAY_TIMEOUT_S if timeout_s is None else timeout_s

    def __len__(self) -> int:
        return len(self._rows) + len(self._strays)

    def __contains__(self, root: object) -> bool:
        return root in self._rows or root in self._strays

    @property
    def may_expire(self) -> bool:
        """Is there anything that time will end?"""
        return bool(self._strays) or (self._timeout_s is not None and bool(self._rows))

    def init(self, owner: int, root: int, xor: int, now_s: float, out: list[tuple[int, Verdict]]) -> None:
        """A spout task `owner` has emitted the tree of `root`, and the clock runs; `xor` is over its first edges."""
        if root in self._rows:
            return  # repeated
        stray = self._strays.pop(root, None) if self._strays else None
        if stray is None and xor:
            self._rows[root] = _Row(xor, owner, now_s)
            return
        if stray is not None:
            xor ^= stray.xor
        self._rows[root] = _Row(xor, owner, now_s)
        if stray is not None and stray.failures:
            for index, failure in stray.failures.items():
                self.fail(root, index, failure, now_s, out)
        if not xor:
            self.ack(((root, 0),), now_s, out)

    def ack(self, items: Iterable[tuple[int, int]], now_s: float, out: list[tuple[int, Verdict]]) -> None:
        """Edges were done and made: (root, xor over both) for each root."""
        rows = self._rows
        for root, xor in items:
            row = rows.get(root)
            if row is None:
                self._stray(root, now_s).xor ^= xor
                continue
            row.xor ^= xor
            if not row.xor:
                del rows[root]
                failures = row.failures if type(row) is _FailedRow else None
                out.append((row.owner, Verdict(VerdictKind.ACK, root, failure=failures)))

    def fail(self, root: int, index: int, failure: Any, now_s: float, out: list[tuple[int, Verdict]]) -> None:
        """A tuple of message `index` of the tree was failed. (Its edge is completed by `ack`, like any other.)"""
        row = self._rows.get(root)
        if row is not None:
            if not isinstance(row, _FailedRow):
                row = self._rows[root] = _FailedRow(row.xor, row.owner, row.since_s)
            if index not in row.failures:
                row.failures[index] = failure
                out.append((row.owner, Verdict(VerdictKind.FAIL, root, index, failure)))
            return
        stray = self._stray(root, now_s)
        if stray.failures is None:
            stray.failures = {}
        stray.failures.setdefault(index, failure)

    def reset(self, root: int, now_s: float, out: list[tuple[int, Verdict]]) -> None:
        """Restart the clock of a tree. (That of a stray starts with its INIT anyway.)"""
        row = self._rows.pop(root, None)
        if row is not None:
            row.since_s = now_s
            self._rows[root] = row  # at the end: the order is that of the deadlines
            out.append((row.owner, Verdict(VerdictKind.RESET, root)))

    def expire(self, now_s: float, out: list[tuple[int, Verdict]]) -> None:
        """End the rows whose deadline has come; a stray ends in silence."""
        if self._timeout_s is not None:
            due = _due(self._rows, now_s, self._timeout_s)
            out += [(self._rows.pop(root).owner, Verdict(VerdictKind.EXPIRED, root)) for root in due]
        for root in _due(self._strays, now_s, self.stray_timeout_s):
            del self._strays[root]

    def forget(self, owner: int) -> None:
        """Its trees have failed without us: what comes for their roots are strays."""
        for root in [root for root, row in self._rows.items() if row.owner == owner]:
            del self._rows[root]

    def clear(self) -> None:
        """Forget everything."""
        self._rows.clear()
        self._strays.clear()

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
