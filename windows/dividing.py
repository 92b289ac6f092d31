"""Dividing: the dumps of the windows of some tasks become the dumps of another number of tasks, by the key of the rows.

    dump of former task 0 ─┐   each key, and what waits   ┌─► dump of task 0
    dump of former task 1 ─┼─► for it, to the task that ──┼─► dump of task 1
    dump of former task 2 ─┘   gets its rows now          └─► …

1. The new tasks together continue as the former ones would have: the same results for each key, in the same order.
2. The watermark of a task is the least of those that its keys come from. Where windows had fired for some keys beyond
   it, they are not fired again: floors.py.
3. Results that are due go with their keys; so do early results and what they have shown.
4. Windows that keep rows of several keys together (of joins) are divided row by row: the rows of each key stay in the
   order of arrival.
5. When a dump is made that is to be divided, no window is due: all that were have been closed, as at a barrier. (Their
   results may not have been taken yet.)
6. Numbers that order things are the greatest of the former tasks: the next row has arrived after all of them.

From: Flink, key groups. There the files of a snapshot are divided by key group; here the reader divides them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from ..topology import KeyRanges, UnhashableKeyError
from .buffered import SLICES
from .dumps import WRONG, check, check_identity, damaged, least_known, time_or_none
from .errors import WindowStateError
from .floors import FLOORS, Layer, floors_above, load_layers
from .open_sessions import SESSIONS
from .row_hash import FieldsHash, KeyHash

if TYPE_CHECKING:
    from .changes import TableName
    from .frozen import Columns, Dump
    from .values import RowKey, Value

STEP: Final = 2_000
"""So many keys are divided between two steps: some milliseconds."""

PackedRow = Callable[["Value"], tuple[str, str, Sequence["Value"]]]
"""The component, the stream and the values of a row that a dump contains."""

_Rows = dict[int, list[Any]]
"""Rows by the task that gets them."""

_KEY_OF_FIRED: Final = 3
_KEY_OF_ROWS: Final = 2
"""The place of the key in a result that is due: of states, and of rows."""

_KEEPS: Final = frozenset({"BufferedWindows", "BufferedSessions", "BufferedCounts", "RowsEachMs", "MsEachRows"})
"""The machines whose results are rows."""


def _same(first: Value, second: Value) -> Value:
    check(first == second, f"{first!r:.100} in one task, and {second!r:.100} in another")
    return first


_MERGED: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "watermark": least_known,
    "fired_until": least_known,
    "plain": lambda first, second: first and second,
    "least_start": _same,
    "arrivals": max,
    "stacks": lambda first, _: [None] * len(first),  # they are built again from the slices
}
"""How the values in the state of two tasks become one."""


class WindowDivider:
    """Divides the windows of a component among `n_tasks` tasks. `wanted`: the numbers of those that are asked for.

    `by`: the hash of the key, or of rows if windows keep the rows of all keys together: then `packed_row` reads them.
    """

    def __init__(
        self,
        by: KeyHash | FieldsHash,
        n_tasks: int,
        wanted: Collection[int],
        packed_row: PackedRow | None = None,
    ) -> None:
        self._by = by
        self._ranges = KeyRanges.for_tasks(n_tasks)
        self._packed_row = packed_row
        self._parts = {task: _Part() for task in wanted}

    def add(self, dump: Dump, former: KeyRanges, index: int) -> Iterator[None]:
        """Add a full dump of former task `index`, which had these ranges: in steps. WindowStateError.

        Only tasks that get keys of these ranges are changed.
        """
        parts = {task: part for task, part in self._parts.items() if self.is_source(former, index, task)}
        try:
            head, tables = dump["head"], dump["tables"]
            for task, part in parts.items():
                part.add_head(head, self._layers(head, former, index, task))
            self._add_ready(head, parts)
            if isinstance(self._by, FieldsHash):
                yield from self._add_rows(tables, parts, self._by)
            else:
                for name, columns in tables.items():
                    yield from self._add_table(name, columns, parts)
        except (*WRONG, UnhashableKeyError) as error:
            raise damaged(f"{type(error).__name__}: {error}") from error

    def is_source(self, former: KeyRanges, index: int, task: int) -> bool:
        """Whether a task may get keys of this former task."""
        if former.n_ranges != self._ranges.n_ranges:
            return True
        theirs, ours = former.ranges_of(index), self._ranges.ranges_of(task)
        return theirs.start < ours.stop and ours.start < theirs.stop

    def take(self, task: int) -> Dump:
        """The full dump of a task, when all have been added. It is forgotten here. {}: there was none."""
        return self._parts.pop(task).dump()

    # -- inside --------------------------------------------------------------------------------------------------------

    def _owner(self, hashed: int) -> int:
        return self._ranges.task_of(hashed % self._ranges.n_ranges)

    def _layers(self, head: Mapping[str, Any], former: KeyRanges, index: int, task: int) -> list[Layer]:
        """How far windows had fired for the keys of the former task."""
        state = head.get("machine", head)["state"]
        layers = load_layers(state.get(FLOORS, ()))
        watermark_ms = time_or_none(state.get("watermark"), "the watermark")
        if watermark_ms is not None:
            ranges: Iterable[int] = former.ranges_of(index)
            if former.n_ranges == self._ranges.n_ranges:
                ours = self._ranges.ranges_of(task)
                ranges = [key_range for key_range in ranges if key_range in ours]
            layers.append((self._by, former.n_ranges, dict.fromkeys(ranges, watermark_ms)))
        return layers

    def _add_ready(self, head: Mapping[str, Any], parts: Mapping[int, _Part]) -> None:
        """The results that are due."""
        heads = [head, head["machine"]] if "machine" in head else [head]
        for level, one in enumerate(heads):
            keeps = one["kind"] in _KEEPS
            for result in one["state"].get("ready", ()):
                if isinstance(self._by, FieldsHash):
                    start, end, key, *lists = result
                    of = [self._rows_by_task(rows, self._by, numbered=False) for rows in lists]
                    for task, part in parts.items():
                        if rows := of[0].get(task):
                            part.ready[level].append((start, end, key, rows, *(some.get(task, []) for some in of[1:])))
                    continue
                key = result[_KEY_OF_ROWS if keeps else _KEY_OF_FIRED]
                owner = self._owner(self._by.of(key))
                if owner in parts:
                    parts[owner].ready[level].append(result)

    def _add_table(self, name: TableName, columns: Columns, parts: Mapping[int, _Part]) -> Iterator[None]:
        """A table, by key."""
        assert isinstance(self._by, KeyHash)  # noqa: S101 - for the type checker
        hash_of = self._by.of
        for keys in _in_steps(columns[0]):
            for key in keys:
                of = key[1] if name == SLICES else key
                part = parts.get(self._owner(hash_of(of)))
                if part is None:
                    continue
                table = part.table(name, len(columns))
                if key in table[0]:
                    raise WindowStateError(
                        f"windows of key {of!r:.100} are in two tasks: the rows of the key did not come to one of them"
                    )
                for mine, theirs in zip(table, columns, strict=True):
                    mine[key] = theirs[key]
            yield

    def _add_rows(
        self, tables: Mapping[TableName, Columns], parts: Mapping[int, _Part], by: FieldsHash
    ) -> Iterator[None]:
        """Tables that keep rows of several keys together, row by row; a timer goes to all tasks that got rows."""
        has_rows: set[tuple[int, RowKey]] = set()
        for table in (SLICES, SESSIONS):
            for key, kept in tables[table][0].items() if table in tables else ():
                for task, mine in self._divided(table, kept, by):
                    if task in parts:
                        column = parts[task].table(table, 1)[0]
                        if key in column:
                            check(table == SLICES, f"sessions of key {key!r:.100} are in two tasks")
                            mine = _merged_slices(column[key], mine)
                        column[key] = mine
                        has_rows.add((task, key[1] if table == SLICES else key))
                yield
        for name, columns in tables.items():
            if isinstance(name, int):
                for task, part in parts.items():
                    for key in columns[0]:
                        if (task, key) in has_rows:
                            part.table(name, 1)[0][key] = None
            else:
                check(name in (SLICES, SESSIONS), f"a table {name!r:.100} of windows that keep rows")
            yield

    def _divided(self, name: TableName, kept: Any, by: FieldsHash) -> Iterator[tuple[int, Any]]:
        """The rows of a slice, or of the sessions of a key, by task."""
        if name == SLICES:
            fired, rows = kept
            had_fired, new = (self._rows_by_task(some, by) for some in (rows[:fired], rows[fired:]))
            for task in {**had_fired, **new}:
                before = had_fired.get(task, [])
                yield task, (len(before), before + new.get(task, []))
            return
        sessions: dict[int, dict[int, Any]] = {}
        for start, (end, rows) in kept.items():
            for task, some in self._rows_by_task(rows, by).items():
                sessions.setdefault(task, {})[start] = (end, some)
        yield from sessions.items()

    def _rows_by_task(self, rows: Iterable[Any], by: FieldsHash, *, numbered: bool = True) -> _Rows:
        assert self._packed_row is not None  # noqa: S101 - for the type checker: rows are read where they are hashed
        found: _Rows = {}
        for row in rows:
            hashed = by.of_values(*self._packed_row(row[1] if numbered else row))
            found.setdefault(self._owner(hashed), []).append(row)
        return found


class _Part:
    """What one task gets. `ready`: the results that are due; of early windows, then those of the windows inside."""

    __slots__ = ("_head", "_layers", "_tables", "ready")

    def __init__(self) -> None:
        self.ready: tuple[list[Value], list[Value]] = ([], [])
        self._head: dict[str, Any] | None = None
        self._layers: list[Layer] = []
        self._tables: dict[TableName, Columns] = {}

    def add_head(self, head: Mapping[str, Any], layers: Iterable[Layer]) -> None:
        """The head of one more dump."""
        check(head["since"] is None, "it is a delta")
        self._layers += layers
        self._head = dict(head) if self._head is None else _merged_heads(self._head, head)

    def table(self, name: TableName, width: int) -> Columns:
        """The columns of a table."""
        columns = self._tables.get(name)
        if columns is None:
            columns = self._tables[name] = [{} for _ in range(width)]
        check(len(columns) == width, f"table {name!r:.100} has {width} columns, and {len(columns)} in another task")
        return columns

    def dump(self) -> Dump:
        """All of it."""
        if self._head is None:
            return {}
        outer, inner = self.ready
        if "machine" in self._head:
            machine = self._finished(self._head["machine"], inner, self._layers)
            head = {**self._finished(self._head, outer, ()), "machine": machine}
        else:
            head = self._finished(self._head, outer, self._layers)
        return {"head": head, "tables": {name: columns for name, columns in self._tables.items() if columns[0]}}

    def _finished(self, head: Mapping[str, Any], ready: list[Value], layers: Iterable[Layer]) -> dict[str, Any]:
        state = {name: value for name, value in head["state"].items() if name != FLOORS}
        if "ready" in state:
            state["ready"] = ready
        if "watermark" in state and (floors := floors_above(state["watermark"], layers)):
            state[FLOORS] = floors
        return {**head, "number": None, "since": None, "state": state}


def _merged_heads(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    check_identity(second, first)
    merged = {**first, "state": _merged_states(first["state"], second["state"])}
    if "machine" in first:
        merged["machine"] = _merged_heads(first["machine"], second["machine"])
    return merged


def _merged_states(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    names = first.keys() - {"ready", FLOORS}
    check(names == second.keys() - {"ready", FLOORS} and names <= _MERGED.keys(), f"the state has {sorted(names)}")
    merged = {name: _MERGED[name](first[name], second[name]) for name in names}
    return {**merged, "ready": []} if "ready" in first else merged


def _merged_slices(first: tuple[int, list[Any]], second: tuple[int, list[Any]]) -> tuple[int, list[Any]]:
    """The rows of one slice, from two tasks: those that have been in a window are the first."""
    (fired, rows), (more_fired, more) = first, second
    return fired + more_fired, [*rows[:fired], *more[:more_fired], *rows[fired:], *more[more_fired:]]


def _in_steps(column: Mapping[RowKey, Any]) -> Iterator[list[RowKey]]:
    keys = iter(column)
    while some := list(islice(keys, STEP)):
        yield some
