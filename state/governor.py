"""Governor: when the next snapshot may begin, and whether a task packs all or what was touched. Pure.

    cost of the last snapshot ≤ max_share of the time since it began  ─►  the next one may begin
    touched keys x seconds a touched key  >  all keys x seconds a key     ─► full

1. Snapshots take at most `max_share` of the event loop of any process, however large the state is and whatever changes:
   the interval grows instead. A snapshot costs BESIDES more than its own time: rows after it find cold caches.
2. The seconds a key are measured, for full snapshots and for deltas. A touched key costs two to five times as much as
   one of a full snapshot, since the keys of a delta are scattered in memory. Touching costs, too: for each row.
3. After MAX_DELTAS deltas, and when the deltas have become larger than the full snapshot before them, a snapshot is
   full: else a restore takes ever longer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from .blobs import BlobRef

BESIDES: Final = 4 / 3
"""The cost of a snapshot, per second that it uses of the loop: measured with 10⁶ keys (0.14 s, of which 0.105 s)."""

MAX_DELTAS: Final = 20

FULL_KEY_S: Final = 0.12e-6
DELTA_KEY_S: Final = 0.4e-6
"""Seconds a key before the first measurement: of a full snapshot, and of a delta."""

TOUCH_ROW_S: Final = 35e-9
"""Seconds to touch the key of a row, in segments of 64 rows: measured with 10⁶ keys, half of it with few."""

MOST_UNTOUCHED: Final = 8
"""After so many snapshots in a row for which no keys were touched, they are touched for one."""

_LEAST_ROWS: Final = 500
"""A snapshot of fewer keys measures the cost of a call, and not of a key."""

_WEIGHT: Final = 0.5
"""Of a new measurement."""


class Governor:
    """When the next snapshot may begin. `max_share`: of each event loop's time, more than 0 and at most 1."""

    __slots__ = ("_began_s", "_loop_s", "interval_s", "max_share")

    def __init__(self, interval_s: float, max_share: float = 0.03) -> None:
        if interval_s < 0 or not 0 < max_share <= 1:
            raise ValueError(f"an interval of at least 0 s and a share of 0 to 1, not {interval_s} s and {max_share}")
        self.interval_s = interval_s
        self.max_share = max_share
        self._began_s: float | None = None
        self._loop_s = 0.0

    def finished(self, began_s: float, loop_s: float) -> None:
        """A snapshot, or an attempt, is over: it began at `began_s` and used `loop_s` of the busiest event loop."""
        self._began_s, self._loop_s = began_s, loop_s

    def due_s(self, now_s: float) -> float:
        """The time at which the next snapshot may begin: at once before the first one."""
        if self._began_s is None:
            return now_s
        return self._began_s + max(self.interval_s, self._loop_s * BESIDES / self.max_share)

    @property
    def slowed(self) -> bool:
        """Whether snapshots are rarer than the interval says, because of their cost."""
        return self._loop_s * BESIDES > self.interval_s * self.max_share


class BlobChain:
    """The saved blobs of a task, and whether its next snapshot is full or a delta."""

    __slots__ = ("_delta_bytes", "_delta_key_s", "_full_bytes", "_full_key_s", "_n_deltas", "_untouched", "blobs")

    def __init__(self) -> None:
        self.blobs: tuple[BlobRef, ...] = ()
        """A full snapshot, and the deltas after it."""
        self._full_bytes = 0
        self._delta_bytes = 0
        self._n_deltas = 0
        self._full_key_s = FULL_KEY_S
        self._delta_key_s = DELTA_KEY_S
        self._untouched = 0  # snapshots in a row after which no keys were touched

    def next_is_full(self, n_touched: int, n_keys: int) -> bool:
        """Whether the next snapshot is full, with so many touched keys of all keys."""
        if not self.blobs or self._n_deltas >= MAX_DELTAS or self._delta_bytes > self._full_bytes:
            return True
        return not self.delta_pays(n_touched, n_keys)

    def touch_next(self, n_touched: int, n_keys: int, n_rows: int, *, known: bool) -> bool:
        """Whether keys are touched until the next snapshot; else that one is full. Called once with each snapshot.

        The arguments are of the time since the last one. `known`: keys were touched in it; else as many as there were
        rows may have changed. Every so often keys are touched all the same, to see how many they are.
        """
        if not known:
            n_touched = min(n_touched + n_rows, n_keys)
        if self.delta_pays(n_touched, n_keys, n_rows) or self._untouched >= MOST_UNTOUCHED:
            self._untouched = 0
            return True
        self._untouched += 1
        return False

    def delta_pays(self, n_touched: int, n_keys: int, n_rows: int = 0) -> bool:
        """Whether it costs less to pack so many touched keys than all keys; with the touching of `n_rows` rows."""
        return n_touched * self._delta_key_s + n_rows * TOUCH_ROW_S <= n_keys * self._full_key_s

    def after(self, blobs: tuple[BlobRef, ...], *, full: bool) -> tuple[BlobRef, ...]:
        """What the manifest of a snapshot with these new blobs lists."""
        return blobs if full else self.blobs + blobs

    def committed(self, blobs: tuple[BlobRef, ...], *, full: bool) -> None:
        """The manifest of a snapshot with these new blobs is durable. An aborted snapshot is not reported here."""
        size_bytes = sum(blob.size_bytes for blob in blobs)
        if full:
            self._full_bytes, self._delta_bytes, self._n_deltas = size_bytes, 0, 0
        elif blobs:
            self._delta_bytes += size_bytes
            self._n_deltas += 1
        self.blobs = self.after(blobs, full=full)

    def measured(self, rows: int, loop_s: float, *, full: bool) -> None:
        """So many keys were frozen and packed in `loop_s`."""
        if rows < _LEAST_ROWS or loop_s <= 0:
            return
        if full:
            self._full_key_s += _WEIGHT * (loop_s / rows - self._full_key_s)
        else:
            self._delta_key_s += _WEIGHT * (loop_s / rows - self._delta_key_s)
