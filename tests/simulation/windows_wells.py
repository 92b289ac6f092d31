"""Wells: what a spout task of the world of windows has to say, and when; outside of every process, as a log is.

    Well (one for each spout task) ── rows that are due ─► Spring ─► collector; acks and failures come back

1. Whatever is not acked when an instance opens is offered again, from the first on.
2. A task that ends says so once nothing is left: all rows acked (`patient`), or all emitted (the framework replays).
3. A spring that tells watermarks says that no row is more than `disorder_ms` behind the latest.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from aiostorm import Failure, Fields, Spout

if TYPE_CHECKING:
    from .windows_ledger import Ledger

FIELDS = Fields("n", "key", "at")


@dataclass(frozen=True, slots=True)
class Drop:
    """A row: which, whose, when it happened (milliseconds), when it is offered (true seconds). `bad`: a bad clock."""

    n: int
    key: str
    at_ms: int
    offered_s: float
    bad: bool = False

    @property
    def values(self) -> tuple[int, str, int]:
        return self.n, self.key, self.at_ms


@dataclass
class Well:
    """Of one spout task."""

    drops: list[Drop]
    ends: bool
    acked: set[int] = field(default_factory=set)
    failed: int = 0
    opened: int = 0
    finished: bool = False
    """Has its latest instance said that nothing more comes?"""

    @property
    def left(self) -> list[int]:
        return [drop.n for drop in self.drops if drop.n not in self.acked]


class Spring(Spout):
    """A spout on wells, one for each of its tasks."""

    outputs = FIELDS
    config: ClassVar[dict[str, Any]] = {"spout_wait_max_ms": 300}

    def __init__(self, ledger: Ledger, name: str, wells: list[Well], *, patient: bool, disorder_ms: int | None) -> None:
        self.ledger = ledger
        self.name = name
        self.wells = wells
        self.patient = patient
        self.disorder_ms = disorder_ms
        self.watermarks = disorder_ms is not None  # type: ignore[misc]

    def __deepcopy__(self, memo: dict[int, Any]) -> Spring:
        return Spring(self.ledger, self.name, self.wells, patient=self.patient, disorder_ms=self.disorder_ms)

    def open(self, context: Any, collector: Any) -> None:
        self.collector = collector
        self.well = well = self.wells[context.task_index]
        well.opened += 1
        well.finished = False
        self.known = {drop.n: drop for drop in well.drops}
        self.queue = [(drop.offered_s, drop.n) for drop in well.drops if drop.n not in well.acked]
        heapq.heapify(self.queue)
        self.open_rows: set[int] = set()
        self.furthest: int | None = None
        self.attempts: dict[int, int] = {}

    def next_tuple(self) -> None:
        world = self.ledger.world
        if not world.current.effect():
            return
        for _ in range(4):
            if not self.queue or self.queue[0][0] > world.now_s:
                break
            self.emit(self.known[heapq.heappop(self.queue)[1]])
        if self.well.ends and not self.queue and not (self.patient and self.open_rows):
            self.well.finished = True
            self.collector.finish()

    def emit(self, drop: Drop) -> None:
        self.open_rows.add(drop.n)
        self.collector.emit(drop.values, message_id=drop.n)
        if self.disorder_ms is not None and not drop.bad:
            self.furthest = max(drop.at_ms, drop.at_ms if self.furthest is None else self.furthest)
            self.collector.emit_watermark(self.furthest - self.disorder_ms)

    def ack(self, message_id: int) -> None:
        if self.ledger.world.current.effect():
            if message_id not in self.open_rows:
                self.ledger.world.problem(f"{self.name}: row {message_id} is acked, but it is not open")
            self.open_rows.discard(message_id)
            self.well.acked.add(message_id)
            self.ledger.acked(message_id)

    def fail(self, message_id: int, failure: Failure) -> None:
        world = self.ledger.world
        if world.current.effect():
            self.well.failed += 1
            self.ledger.failed(message_id, failure)
            attempt = self.attempts[message_id] = self.attempts.get(message_id, 0) + 1
            heapq.heappush(self.queue, (world.now_s + min(2.0, 0.02 * 2 ** min(attempt, 10)), message_id))
