"""Window results: what becomes of late rows, and of windows that have fired: rows.

User code and machines return values; rows are made of them.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Iterator
from datetime import datetime
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from ...topology import DEFAULT_STREAM, EmitError, Row, Segment
from ...windows import (
    Fired,
    LatePolicy,
    LateWindow,
    Machine,
    TimestampError,
    WindowBolt,
    WindowedBolt,
    to_datetime,
    to_ms,
)
from ..drive import USER_ERRORS, user_error
from ..emit.lineage import UNTRACKED

if TYPE_CHECKING:
    from ...topology import Function, Item, Key, Returned, Timestamp, Value
    from ...windows import IncrementalMachine, Window
    from ..emit.emitter import Emitter
    from .user_calls import UserCalls


class WindowResults:
    """Emits the results of one windowed bolt (a WindowOutput)."""

    __slots__ = (
        "_arity",
        "_bolt",
        "_emitter",
        "_machine",
        "_names",
        "_one_key",
        "_purge",
        "_report",
        "_shows_early",
        "_waiting",
    )

    keeps_rows = False

    def __init__(
        self,
        bolt: WindowedBolt,
        machine: IncrementalMachine,
        emitter: Emitter,
        report: Callable[[BaseException], None],
        calls: UserCalls,
    ) -> None:
        default = emitter.streams.get(DEFAULT_STREAM)
        self._arity = 0 if default is None else default.arity
        self._bolt = bolt
        self._machine = machine
        self._emitter = emitter
        self._report = report
        self._shows_early = machine.early is not None
        self._purge = _with_key(bolt.purge) if bolt.aggregate is None else None
        self._waiting = None if self._purge is None or not calls.waits(bolt.purge) else partial(calls.call, self._purge)
        self._one_key = bolt.key is not None and not isinstance(bolt.key, tuple)
        self._names = () if bolt.aggregate is None else bolt.aggregate.names

    @property
    def held(self) -> int:
        return self._machine.states

    async def emit_due(self, due: Iterator[Fired], most: int) -> bool:
        if self._waiting is not None:
            return await self._emit_each(self._waiting, due, most)
        fired = list(islice(due, most))
        if fired:
            self.emit(fired)
        return len(fired) == most

    def emit(self, fired: list[Fired]) -> None:
        """Emit the rows of windows that have fired, anchored to nothing."""
        if not self._shows_early:
            self._emitter.counters.fired += len(fired)
        else:
            self._emitter.counters.fired += sum(one.window.final for one in fired)
        out = self._emitter.streams.get(DEFAULT_STREAM)
        items: list[Item] = []
        if self._purge is not None:
            for one in fired:
                self._purge_one(one, items)
        else:
            whole = [one for one in fired if one[3] is None]
            if len(whole) < len(fired):
                for one in fired:
                    if one.error is not None:
                        self._lost(one, one.error)
            items = self._rows(self._dated(whole) if self._bolt.times == "datetime" else whole)
        if items and out is not None:
            self._emitter.add(UNTRACKED, out, [row[0] for row in items] if out.bare else items, None)

    async def _emit_each(self, purge: Callable[..., Awaitable[Returned]], due: Iterator[Fired], most: int) -> bool:
        """One by one: `purge` may wait."""
        out, emitted = self._emitter.streams.get(DEFAULT_STREAM), 0
        for fired in islice(due, most):
            self._emitter.counters.fired += fired.window.final
            items: list[Item] = []
            try:
                if fired.error is not None:
                    raise fired.error
                self._add(await purge(fired.result, fired.window, fired.key), items)
            except USER_ERRORS as error:
                self._lost(fired, user_error(error))
            if items and out is not None:
                self._emitter.add(UNTRACKED, out, [row[0] for row in items] if out.bare else items, None)
            emitted += 1
        return emitted == most

    def _dated(self, fired: list[Fired]) -> list[Item]:
        """The same with datetimes. A window outside of the range of datetime is lost."""
        dated = []
        for one in fired:
            try:
                times = _Times(to_datetime(one.window.start), to_datetime(one.window.end), one.window.final)
            except TimestampError as error:
                self._lost(one, error)
            else:
                dated.append(one._replace(window=times))  # type: ignore[arg-type] # the attributes that rows show
        return dated

    def _rows(self, fired: list[Fired]) -> list[Item]:
        """For a ready-made aggregate: key, results, window; with several names, a result is a tuple."""
        if self._shows_early:
            return [
                (*self._key_of(key), *(result if self._names else (result,)), window.start, window.end, window.final)
                for window, key, result, _ in fired
            ]
        if self._one_key:
            if self._names:
                return [(key, *result, window.start, window.end) for window, key, result, _ in fired]
            return [(key, result, window.start, window.end) for window, key, result, _ in fired]
        return [
            (*(key or ()), *(result if self._names else (result,)), window.start, window.end)
            for window, key, result, _ in fired
        ]

    def _key_of(self, key: Key) -> Row:
        return (key,) if self._one_key else key or ()

    def _purge_one(self, fired: Fired, items: list[Item]) -> None:
        try:
            if fired.error is not None:
                raise fired.error
            assert self._purge is not None  # noqa: S101 - for the type checker
            self._add(self._purge(fired.result, fired.window, fired.key), items)
        except USER_ERRORS as error:
            self._lost(fired, user_error(error))

    def _add(self, returned: Returned, items: list[Item]) -> None:
        if returned is not None:
            rows = rows_of(returned, self._arity, f"{type(self._bolt).__name__}.purge")
            items += [self._emitter.streams.row(row, DEFAULT_STREAM)[1] for row in rows]

    def _lost(self, fired: Fired, error: BaseException) -> None:
        lost = "which is lost" if fired.window.final else "of which an early result is lost"
        error.add_note(f"in window {fired.window} of key {fired.key!r:.100}, {lost}")
        self._report(error)


class LateRows:
    """Handles the late tuples of one bolt. `arity`: how many fields its rows have; `waits`: may `retract` wait?

    `revision`: the number of the last late row; rows that `retract` returns are corrections with this number.
    """

    def __init__(self, bolt: WindowBolt, emitter: Emitter, machine: Machine[object], calls: UserCalls) -> None:
        self._bolt = bolt
        self._emitter = emitter
        self._machine = machine
        default = emitter.streams.get(DEFAULT_STREAM)
        self.arity = 0 if default is None else default.arity
        self.revision = 0
        self.waits = bolt.late is LatePolicy.RETRACT and calls.waits(bolt.retract)
        self._calls = calls

    def take(self, segment: Segment, offset: int, timestamp: Timestamp) -> None:
        """Handle one of them. Raises what `retract` raises."""
        self._emitter.counters.late += 1
        if self._bolt.late is LatePolicy.RETRACT:
            self._add(segment, offset, self._bolt.retract(segment.tuple_at(offset), self._next(timestamp)))
        elif self._bolt.late is LatePolicy.STREAM:
            origin, at_ms = segment.origin, to_ms(timestamp)
            row = segment.row(offset), at_ms, origin.component, origin.stream
            self._emit(segment, offset, row, self._bolt.late_stream)

    async def take_waiting(self, segment: Segment, offset: int, timestamp: Timestamp) -> None:
        """Handle one of them with a `retract` that may wait. Raises what it raises."""
        self._emitter.counters.late += 1
        windows = self._next(timestamp)
        self._add(segment, offset, await self._calls.call(self._bolt.retract, segment.tuple_at(offset), windows))

    def _next(self, timestamp: Timestamp) -> list[Window]:
        self.revision += 1
        return [LateWindow(one.start, one.end, self.revision) for one in self._machine.windows_of(to_ms(timestamp))]

    def _add(self, segment: Segment, offset: int, returned: Returned) -> None:
        bolt = self._bolt
        for row in rows_of(returned, self.arity, f"{type(bolt).__name__}.retract"):
            self._emit(segment, offset, row, DEFAULT_STREAM)

    def _emit(self, segment: Segment, offset: int, values: Row | list[Value], stream: str) -> None:
        out, row = self._emitter.streams.row(values, stream)
        items, anchors = self._emitter.buffer_of(segment).buffer(out)
        items.append(out.item(row))
        source = segment.indices if segment.lineage is None else segment.lineage.pairs
        anchors.append(None if source is None else source[offset])


class _Times(NamedTuple):
    """A window as it is shown in rows."""

    start: datetime
    end: datetime
    final: bool


def rows_of(returned: Returned, arity: int, name: str) -> Iterable[Row]:
    """None is no row, a tuple is a row, any other iterable is rows; with one field, any other value is a row of one."""
    if returned is None:
        return ()
    if type(returned) is tuple:
        return (returned,)
    if isinstance(returned, str | bytes | dict) or not isinstance(returned, Iterable):
        if arity == 1:
            return ((returned,),)
        raise EmitError(
            f"{name} returned {returned!r:.100}, which is no row: return a tuple of {arity} values, several in a list, "
            "or None"
        )
    return (row if isinstance(row, tuple) else _one(row, arity, name) for row in returned)


def _one(row: Returned, arity: int, name: str) -> Row:
    if isinstance(row, list) and arity != 1:
        return tuple(row)
    if arity == 1:
        return (row,)
    raise EmitError(f"{name} returned {row!r:.100} among its rows: a row is a tuple of {arity} values")


def _with_key(purge: Function) -> Callable[[Key, Value, Value], Returned]:
    """`purge` may be defined with a key or without."""
    try:
        takes = len(inspect.signature(purge).parameters)
    except (TypeError, ValueError) as error:
        raise EmitError(f"purge {purge!r} has no readable signature") from error
    return purge if takes > 2 else lambda state, window, key: purge(state, window)
