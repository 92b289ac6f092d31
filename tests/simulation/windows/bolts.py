"""The bolts of the world of windows. Their machines are watched (watched.py); a sink reports what it has received."""

from __future__ import annotations

from typing import Any

from aiostorm import BasicBolt, Bolt, Fields, bolt
from aiostorm.windows import BufferedWindowBolt, JoinBolt, JoinKind, WindowedBolt

from .ledger import Ledger
from .sources import FIELDS
from .watched import Watched, WatchedBuffer, WatchedJoin, WatchedResults, buffer_of, reference_of

RESULTS = Fields("key", "result", "start", "end")


class Own:
    """Bolts of ours go by one template: they are copied for each task, the ledger is not."""

    ledger: Ledger
    name = "windows"
    tidy = False


class Ready(Own, WindowedBolt):
    """Ready made."""

    def machine(self, settings: Any, layout: Any) -> Any:
        machine = super().machine(settings, layout)
        expected = reference_of(self.windows, self.allowed_lateness_ms)
        return Watched(self.ledger, self.name, machine, expected, on_time=self.tidy)


class Second(Own, WindowedBolt):
    """Windows over results of windows."""

    name = "second"

    def machine(self, settings: Any, layout: Any) -> Any:
        machine = super().machine(settings, layout)
        expected = reference_of(self.windows, self.allowed_lateness_ms)
        return WatchedResults(self.ledger, self.name, machine, expected, on_time=self.tidy)


class Plain(Ready):
    """JStorm's way; no merge."""

    outputs = RESULTS

    def init_state(self, window: Any) -> Any:
        return []

    def execute(self, tup: Any, state: Any, window: Any) -> Any:
        state.append(tup["n"])

    def purge(self, state: Any, window: Any, key: Any = None) -> Any:
        return key, state, window.start, window.end

    def retract(self, tup: Any, windows: Any) -> Any:
        return []


class Merging(Plain):
    """With a merge, and a state that is replaced."""

    def execute(self, tup: Any, state: Any, window: Any) -> Any:
        return [*state, tup["n"]]

    def merge(self, first: Any, second: Any) -> Any:
        return first + second


class Buffered(Own, BufferedWindowBolt):
    """Storm's way."""

    name = "buffered"
    outputs = RESULTS

    def machine(self, settings: Any) -> Any:
        expected = buffer_of(self.windows, self.allowed_lateness_ms)
        return WatchedBuffer(self.ledger, self.name, super().machine(settings), expected, on_time=self.tidy)

    def execute(self, window: Any) -> Any:
        return window.key, [tup["n"] for tup in window.get()], window.window.start, window.window.end


class MixedRows(Buffered):
    """So many rows, each so many milliseconds, or the reverse."""

    name = "mixed"


class Joining(Own, JoinBolt):
    """Rows of two spouts, joined."""

    name = "join"
    pair = JoinKind.INNER, ("s0", "s1")

    def machine(self, settings: Any) -> Any:
        expected = buffer_of(self.windows, self.allowed_lateness_ms)
        watched = WatchedJoin(self.ledger, self.name, super().machine(settings), expected, on_time=self.tidy)
        watched.kind, watched.sources = self.pair
        return watched


class Pass(BasicBolt):
    outputs = FIELDS

    def execute(self, tup: Any, collector: Any) -> None:
        collector.emit(tup.values)


class PassBatch(BasicBolt):
    outputs = FIELDS

    def execute_batch(self, tuples: Any, collector: Any) -> None:
        for tup in tuples:
            collector.emit(tup.values, anchors=tup)


def pass_function() -> Any:
    """A function."""

    @bolt(outputs=list(FIELDS))
    def execute(n: int, key: str, at: int) -> Any:
        yield n, key, at

    return execute


class Sink(Bolt):
    """Reports to the ledger."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger

    def prepare(self, context: Any, collector: Any) -> None:
        self.collector = collector

    def execute(self, tup: Any) -> None:
        if self.ledger.world.current.effect():
            component = tup.source_component
            if tup.stream == "late":
                self.ledger.sees_late(component, _name(component, tup["values"]))
            elif component == "join":
                key, left, other_key, right = tup.values
                pair = (-1 if left is None else left, -1 if right is None else right)
                self.ledger.sees((component, other_key if left is None else key, 0, 0, pair))
            else:
                key, rows, start, end = tup.values
                names = sorted(_name(component, row) for row in rows)
                self.ledger.sees((component, key, start, end, tuple(names)))
        self.collector.ack(tup)


def _name(component: str, row: Any) -> Any:
    """A row, as the ledger knows it."""
    if component == "second":
        key, rows, start, end = row
        return key, start, end, tuple(sorted(rows))
    return row if isinstance(row, int) else row[0]
