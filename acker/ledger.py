"""The ledger: which trees are complete, in one constant-size row per root.

Every edge (one per segment and root) is XORed into its root's row twice: when it is made and when it is done. The row
is zero when, and practically only when, every edge that was made is done.

    spout ── INIT(root, xor of its edges) ─┐
    bolt ─── ACK(root, done ^ made) ───────┼─► row ──► zero after INIT      ACK      every open message is acked
    bolt ─── FAIL(root, index) ────────────┘       ──► FAIL, INIT seen      FAIL     that message fails, at once
                                                   ──► deadline             EXPIRED  every open message fails

1. The three kinds come in any order: a row without INIT collects, and remembers which messages failed.
2. XOR is not idempotent: one repeated INIT would turn an unprocessed tree into a success. A second INIT is ignored.
3. A row ends exactly once: ACK or EXPIRED. What comes for its root afterwards makes a row without an owner, which
   expires in silence.
4. Rows are ordered by deadline (the timeout is one for all), so expiry looks only at those that are due.
5. A row is constant size: a failure is passed on, not kept (only before INIT, at most one per message of the tree).

Storm: org.apache.storm.daemon.Acker. Departures: FAIL before INIT is remembered (JStorm drops it); a FAIL names the
message within the tree, and does not end the row; expiry is by deadline, not by rotating buckets (theirs fires between
one and two timeouts).
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Any

NO_OWNER = -1


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
    __slots__ = ("deadline_s", "failures", "owner", "xor")

    def __init__(self, xor: int, owner: int, deadline_s: float) -> None:
        self.xor = xor
        self.owner = owner
        self.deadline_s = deadline_s
        self.failures: dict[int, Any] | None = None


class Ledger:
    """The XOR table. `timeout_s=None`: rows never expire. Times are monotonic seconds and never go back.

    Every method appends its verdicts to `out`, a list of (owner, verdict), in the order they were reached.
    """

    __slots__ = ("_rows", "_timeout_s")

    def __init__(self, timeout_s: float | None) -> None:
        self._rows: dict[int, _Row] = {}
        self._timeout_s = float("inf") if timeout_s is None else timeout_s

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, root: object) -> bool:
        return root in self._rows

    def init(self, owner: int, root: int, xor: int, now_s: float, out: list[tuple[int, Verdict]]) -> None:
        """A spout task `owner` has emitted the tree of `root`; `xor` is over its first edges."""
        row = self._rows.get(root)
        if row is None:
            if xor:
                self._rows[root] = _Row(xor, owner, now_s + self._timeout_s)
            else:
                out.append((owner, Verdict(VerdictKind.ACK, root)))
            return
        if row.owner != NO_OWNER:
            return  # repeated
        row.owner = owner
        row.xor ^= xor
        if row.failures:
            for index, failure in row.failures.items():
                out.append((owner, Verdict(VerdictKind.FAIL, root, index, failure)))
            row.failures = None
        if row.xor:
            # The clock runs from the emit; moved to the end, so that the rows stay ordered by deadline.
            row.deadline_s = now_s + self._timeout_s
            self._rows[root] = self._rows.pop(root)
        else:
            del self._rows[root]
            out.append((owner, Verdict(VerdictKind.ACK, root)))

    def ack(self, items: Iterable[tuple[int, int]], now_s: float, out: list[tuple[int, Verdict]]) -> None:
        """Edges were done and made: (root, xor over both) for each root."""
        rows = self._rows
        for root, xor in items:
            row = rows.get(root)
            if row is None:
                rows[root] = _Row(xor, NO_OWNER, now_s + self._timeout_s)
                continue
            row.xor ^= xor
            if not row.xor and row.owner != NO_OWNER:
                del rows[root]
                out.append((row.owner, Verdict(VerdictKind.ACK, root)))

    def fail(self, root: int, index: int, failure: Any, now_s: float, out: list[tuple[int, Verdict]]) -> None:
        """A tuple of message `index` of the tree was failed. (Its edge is completed by `ack`, like any other.)"""
        row = self._rows.get(root)
        if row is None:
            row = self._rows[root] = _Row(0, NO_OWNER, now_s + self._timeout_s)
        if row.owner != NO_OWNER:
            out.append((row.owner, Verdict(VerdictKind.FAIL, root, index, failure)))
            return
        if row.failures is None:
            row.failures = {}
        row.failures.setdefault(index, failure)

    def reset(self, root: int, now_s: float, out: list[tuple[int, Verdict]]) -> None:
        """Restart the clock of a tree."""
        row = self._rows.pop(root, None)
        if row is None:
            return
        row.deadline_s = now_s + self._timeout_s
        self._rows[root] = row
        if row.owner != NO_OWNER:
            out.append((row.owner, Verdict(VerdictKind.RESET, root)))

    def expire(self, now_s: float, out: list[tuple[int, Verdict]]) -> None:
        """End the rows whose deadline has come; a row without an owner ends in silence."""
        due: list[int] = []
        for root, row in self._rows.items():
            if row.deadline_s > now_s:
                break
            due.append(root)
        for root in due:
            row = self._rows.pop(root)
            if row.owner != NO_OWNER:
                out.append((row.owner, Verdict(VerdictKind.EXPIRED, root)))

    def clear(self) -> None:
        """Forget every row."""
        self._rows.clear()
