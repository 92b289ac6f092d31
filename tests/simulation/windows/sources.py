"""Sources: what a spout task of the world of windows has to say, and when; outside of every process, as a log is.

    SourceLog (one for each spout task) ── rows that are due ─► LogSpout ─► collector; acks and failures come back

1. Whatever is not acked when an instance opens is offered again, from the first on.
2. A task that ends says so once nothing is left: all rows acked (`patient`), or all emitted (the framework replays).
3. A spout that emits watermarks declares that no row is more than `disorder_ms` behind the latest.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from aiostorm import Failure, Fields, Spout

if TYPE_CHECKING:
    from .ledger import Ledger

FIELDS = Fields("n", "key", "at")


@dataclass(frozen=True, slots=True)
class SourceRow:
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
class SourceLog:
    """Of one spout task."""

    rows: list[SourceRow]
    ends: bool
    acked: set[int] = field(default_factory=set)
    failed: int = 0
    opened: int = 0
    finished: bool = False
    """Has its latest instance said that nothing more comes?"""

    @property
    def left(self) -> list[int]:
        return [row.n for row in self.rows if row.n not in self.acked]


class LogSpout(Spout):
    """A spout on logs, one for each of its tasks."""

    outputs = FIELDS
    config: ClassVar[dict[str, Any]] = {"spout_wait_max_ms": 300}

    def __init__(
        self, ledger: Ledger, name: str, logs: list[SourceLog], *, patient: bool, disorder_ms: int | None
    ) -> None:
        self.ledger = ledger
        self.name = name
        self.logs = logs
        self.patient = patient
        self.disorder_ms = disorder_ms
        self.watermarks = disorder_ms is not None  # type: ignore[misc]

    def __deepcopy__(self, memo: dict[int, Any]) -> LogSpout:
        return LogSpout(self.ledger, self.name, self.logs, patient=self.patient, disorder_ms=self.disorder_ms)

    def open(self, context: Any, collector: Any) -> None:
        self.collector = collector
        self.log = log = self.logs[context.task_index]
        log.opened += 1
        log.finished = False
        self.known = {row.n: row for row in log.rows}
        self.queue = [(row.offered_s, row.n) for row in log.rows if row.n not in log.acked]
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
        if self.log.ends and not self.queue and not (self.patient and self.open_rows):
            self.log.finished = True
            self.collector.finish()

    def emit(self, row: SourceRow) -> None:
        self.open_rows.add(row.n)
        self.collector.emit(row.values, message_id=row.n)
        if self.disorder_ms is not None and not row.bad:
            self.furthest = max(row.at_ms, row.at_ms if self.furthest is None else self.furthest)
            self.collector.emit_watermark(self.furthest - self.disorder_ms)

    def ack(self, message_id: int) -> None:
        if self.ledger.world.current.effect():
            if message_id not in self.open_rows:
                self.ledger.world.problem(f"{self.name}: row {message_id} is acked, but it is not open")
            self.open_rows.discard(message_id)
            self.log.acked.add(message_id)
            self.ledger.acked(message_id)

    def fail(self, message_id: int, failure: Failure) -> None:
        world = self.ledger.world
        if world.current.effect():
            self.log.failed += 1
            self.ledger.failed(message_id, failure)
            attempt = self.attempts[message_id] = self.attempts.get(message_id, 0) + 1
            heapq.heappush(self.queue, (world.now_s + min(2.0, 0.02 * 2 ** min(attempt, 10)), message_id))
