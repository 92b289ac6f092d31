"""Scripted spouts: a test decides what is emitted, and reads what became of it.

    test ── feed ──► script ── next_tuple ──► topology
      ▲                 │ ◄── ack, fail ─────────┘
      └ acked, failed ──┘

1. The framework copies a component for each of its tasks. The copy of a scripted spout is a view on the *same* script:
   the test's own spout object and every task share it. So parallelism and restarts work, and each row is emitted once,
   by the first task that calls.
2. A row has a message id and is tracked, unless it is fed as untracked. The spout does not emit a failed message again:
   the test decides about that (or `topology.max.retries`, which replays before the spout is notified).
3. `next_tuple` emits one row, so `topology.max.spout.pending` is exact. With nothing to emit it returns, and `feed`
   wakes it: an idle feeder costs a virtual loop next to nothing.
4. A script is for one run: rows that were emitted are removed. With exactly-once they are kept, and a task's position
   is how many it has emitted: after a rollback, or in a later run, those behind its position are emitted again. A row
   then counts as acked when a snapshot that contains it is committed.

Storm: org.apache.storm.testing.FeederSpout, FixedTupleSpout, FixedTuple, AckFailMapTracker.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from ..topology import DEFAULT_STREAM, Failure, Fields, Outputs, Row, Spout, SpoutCollector, StreamDecl, TopologyContext
from .changes import Changes
from .errors import ScriptError

WAIT_S = 60.0
"""The default timeout of the waits in this package: seconds of the loop's time."""


@dataclass(frozen=True, slots=True)
class FixedTuple:
    """A scripted row with its stream. `message_id` None: the script numbers it. Storm: FixedTuple."""

    values: Sequence[Any]
    stream: str = DEFAULT_STREAM
    message_id: Any = None


class Script:
    """What the tasks of a scripted spout emit, and what became of it. Shared by the test and all tasks."""

    __slots__ = (
        *("_next_id", "acked", "changes", "collectors", "emitted", "ended"),
        *("failed", "open_ids", "rows", "settled", "streams"),
    )

    def __init__(self, streams: Mapping[str, Fields]) -> None:
        self.streams = streams
        self.rows: deque[tuple[Row, Any, str]] = deque()
        self.open_ids: set[Any] = set()
        self.acked: list[Any] = []
        self.failed: dict[Any, Failure] = {}
        self.ended = False
        self.collectors: dict[int, Any] = {}
        self.emitted: dict[int, list[tuple[Row, Any, str]]] = {}  # by the index of the task, with exactly-once
        self.settled: dict[int, int] = {}  # how many of these
        self.changes = Changes()
        self._next_id = 0

    def add(self, values: Any, message_id: Any, stream: str, *, tracked: bool = True) -> Any:
        """Append a row; its message id (None: it has none). ScriptError if it does not fit."""
        if self.ended:
            raise ScriptError("fed after finish(): the spout's tasks have ended")
        row = self._row(values, stream)
        if not tracked:
            if message_id is not None:
                raise ScriptError(f"message id {message_id!r}: what is not tracked has no message id")
            self.rows.append((row, None, stream))
            return None
        if message_id is None:
            while self._next_id in self.open_ids:
                self._next_id += 1
            message_id = self._next_id
            self._next_id += 1
        elif message_id in self.open_ids:
            raise ScriptError(f"message id {message_id!r} is open: it was fed before and is neither acked nor failed")
        self.open_ids.add(message_id)
        self.rows.append((row, message_id, stream))
        return message_id

    def settle(self, message_id: Any, failure: Failure | None) -> None:
        """A message was acked, or failed."""
        self.open_ids.discard(message_id)
        if failure is None:
            self.acked.append(message_id)
        else:
            self.failed[message_id] = failure
        self.changes.notify()

    def begin_at(self, index: int, position: int) -> None:
        """The task with this index has emitted so many rows: those after them come again."""
        emitted = self.emitted.setdefault(index, [])
        self.rows.extendleft(reversed(emitted[position:]))
        del emitted[position:]
        while len(emitted) < position and self.rows:  # a script of another run
            emitted.append(self.rows.popleft())

    def settle_emitted(self, index: int, position: int) -> None:
        """The rows before this position are in a snapshot."""
        first = self.settled.get(index, 0)
        for _, message_id, _ in self.emitted[index][first:position]:
            if message_id is not None:
                self.settle(message_id, None)
        self.settled[index] = max(first, position)

    def wake(self) -> None:
        """There is something new for the tasks."""
        for collector in self.collectors.values():
            collector.wake()

    def _row(self, values: Any, stream: str) -> Row:
        fields = self.streams.get(stream)
        if fields is None:
            raise ScriptError(f"no stream {stream!r}; declared: {', '.join(self.streams)}")
        if not isinstance(values, tuple | list):
            if len(fields) != 1:
                raise ScriptError(f"{values!r:.200} is no row: a tuple of {len(fields)} values ({', '.join(fields)})")
            return (values,)
        if len(values) != len(fields):
            raise ScriptError(f"{values!r:.200} has {len(values)} values; the fields are: {', '.join(fields)}")
        return tuple(values)


class ScriptedSpout(Spout):
    """What FeederSpout and FixedSpout share."""

    # `feed`, a verdict and an activation wake the spout, so it need not be called in between.
    config: ClassVar[Mapping[str, Any]] = {"spout_wait_max_ms": 3_600_000}

    def __init__(self, outputs: Outputs) -> None:
        streams = _streams(outputs)
        # Declared per class elsewhere; here each spout has its own.
        self.outputs = streams  # type: ignore[misc]
        self._script = Script(streams)
        self._collector: SpoutCollector
        self._context: TopologyContext
        self._restored = False
        self._position = 0

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """A view for one task on the same script; see the module."""
        view = type(self).__new__(type(self))
        view.outputs = self.outputs  # type: ignore[misc]
        view._script = self._script
        return view

    @property
    def acked(self) -> list[Any]:
        """The message ids that were acked, in that order."""
        return list(self._script.acked)

    @property
    def failed(self) -> dict[Any, Failure]:
        """The message ids that failed, in that order, with the (last) reason."""
        return dict(self._script.failed)

    @property
    def pending(self) -> int:
        """How many messages are neither acked nor failed."""
        return len(self._script.open_ids)

    async def idle(self, timeout_s: float | None = WAIT_S) -> None:
        """Wait until everything that was fed is acked or failed; WaitTimeoutError after `timeout_s`."""
        script = self._script
        await script.changes.until(lambda: not script.open_ids, timeout_s, self._describe)

    # -- what the framework calls ------------------------------------------------------------------------------------

    def open(self, context: TopologyContext, collector: SpoutCollector) -> None:
        self._collector = collector
        self._context = context
        self._restored = context.config.guarantee != "exactly-once"
        self._position = 0
        self._script.collectors[context.task_id] = collector

    def next_tuple(self) -> None:
        """Emit the next row of the script, if there is one."""
        script = self._script
        if not self._restored:
            self.restore(0)
        if script.rows:
            row, message_id, stream = script.rows.popleft()
            if self._index in script.emitted:
                script.emitted[self._index].append((row, message_id, stream))
            self._collector.emit(row, message_id, stream)
            script.changes.notify()
        elif script.ended:
            self._collector.finish()

    def ack(self, message_id: Any) -> None:
        self._script.settle(message_id, None)

    def fail(self, message_id: Any, failure: Failure) -> None:
        self._script.settle(message_id, failure)

    def snapshot(self) -> int:
        self._position = len(self._script.emitted.get(self._index, ())) if self._restored else 0
        return self._position

    def restore(self, position: int) -> None:
        self._restored = True
        self._script.begin_at(self._index, position)

    def committed(self, number: int) -> None:
        if self._position:
            self._script.settle_emitted(self._index, self._position)

    def close(self) -> None:
        self._script.collectors.pop(self._context.task_id, None)

    @property
    def _index(self) -> int:
        return self._context.task_index

    def _describe(self) -> str:
        script = self._script
        ids = ", ".join(map(repr, list(script.open_ids)[:10]))
        more = ", …" if len(script.open_ids) > 10 else ""
        return (
            f"{len(script.open_ids)} of the messages that were fed are neither acked nor failed ({ids}{more}; "
            f"{len(script.rows)} not yet emitted, {len(script.acked)} acked, {len(script.failed)} failed)"
        )


class FeederSpout(ScriptedSpout):
    """A spout that emits what the test feeds it: `feeder = FeederSpout("line")`, `await feeder.feed(("a b",))`.

    `streams`: further streams, name → fields. `capacity_tuples`: rows that may wait to be emitted; then `feed` waits.
    """

    def __init__(self, *fields: str, streams: Mapping[str, Any] | None = None, capacity_tuples: int = 10_000) -> None:
        super().__init__({DEFAULT_STREAM: Fields(*fields), **(streams or {})})
        self._capacity_tuples = capacity_tuples

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        view = super().__deepcopy__(memo)
        view._capacity_tuples = self._capacity_tuples
        return view

    async def feed(
        self, values: Any, message_id: Any = None, stream: str = DEFAULT_STREAM, *, tracked: bool = True
    ) -> Any:
        """Emit one row; returns its message id (0, 1, 2, … unless given).

        `values` is a tuple or list; a stream of one field also takes the value itself. `tracked=False`: emitted without
        a message id, so no ack or fail follows. ScriptError if it does not fit.
        """
        script = self._script
        if len(script.rows) >= self._capacity_tuples:
            await script.changes.until(lambda: len(script.rows) < self._capacity_tuples, None, self._describe)
        fed = script.add(values, message_id, stream, tracked=tracked)
        script.wake()
        return fed

    async def feed_all(self, rows: Iterable[Any], stream: str = DEFAULT_STREAM) -> list[Any]:
        """Emit rows in order; returns their message ids."""
        return [await self.feed(values, None, stream) for values in rows]

    def finish(self) -> None:
        """Nothing more will be fed: when all is emitted, the spout's tasks finish (see `running.wait_finished`)."""
        self._script.ended = True
        self._script.wake()


class FixedSpout(ScriptedSpout):
    """A spout that emits these rows and finishes: `FixedSpout([("a b",), FixedTuple(("x",), "errors")], "line")`.

    `fields` are those of the default stream, `streams` further ones. Message ids are 0, 1, 2, … unless given. Storm:
    FixedTupleSpout.
    """

    def __init__(self, rows: Iterable[Any], *fields: str, streams: Mapping[str, Any] | None = None) -> None:
        super().__init__({DEFAULT_STREAM: Fields(*fields), **(streams or {})})
        for row in rows:
            if isinstance(row, FixedTuple):
                self._script.add(row.values, row.message_id, row.stream)
            else:
                self._script.add(row, None, DEFAULT_STREAM)
        self._script.ended = True


def _streams(outputs: Any) -> dict[str, Fields]:
    streams: dict[str, Fields] = {}
    for name, declared in outputs.items():
        if isinstance(declared, StreamDecl):
            if declared.direct:
                raise ScriptError(f"stream {name!r} is direct: a scripted spout cannot know the receiving task")
            streams[name] = declared.fields
        else:
            streams[name] = declared if isinstance(declared, Fields) else Fields(declared)
    if not streams.get(DEFAULT_STREAM, True):
        del streams[DEFAULT_STREAM]
    if not streams:
        raise ScriptError("a scripted spout needs fields: FeederSpout('line')")
    return streams
