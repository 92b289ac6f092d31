"""WindowCapture: what the windows of a task contained at the freeze, as chunks.

    head chunk:  None → (head of the dump, how many rows follow, tables that were dropped)
    chunks:      (table, key) → the values of the key, a tuple with one for each column;  keys that were removed

1. Windows go on while it is packed: what is going to change is copied before it does (windows.frozen).
2. A delta contains what has changed since the last snapshot that was committed, whatever was aborted in between.
3. A state that cannot be packed is an UnsavableError with component, task, key and type, and the window.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final, cast

from ...state import ATOMS, FIRST_ROWS, REMOVED, PackedChunk, RowPacker, UnsavableError, next_rows
from ...transport.codec import UnsendableError, pack_value, unpack_value
from ...windows import StatePackError
from .saved import WINDOWS

if TYPE_CHECKING:
    from ...windows import Frozen, Machine, TableRows

FEW_ROWS: Final = 100
"""So many rows are packed early, to find states that cannot be packed."""


class WindowTables:
    """The windows of one task, for its saver. `committed` and `counts` are of snapshots; see WindowCapture."""

    __slots__ = ("_committed", "_component", "_machine", "_task")

    def __init__(self, machine: Machine[Any], component: str, task: int) -> None:
        self._committed: int | None = None
        self._component = component
        self._machine = machine
        self._task = task

    def counts(self) -> tuple[int, int]:
        """About how many keys have changed since the last snapshot that counts, and how many there are."""
        machine, rows = self._machine, self._machine.saved_rows
        changed = None if self._committed is None else machine.changed_since(self._committed)
        return rows if changed is None else changed, rows

    def capture(self, number: int, since: int | None) -> WindowCapture:
        """Everything (`since` None), or what has changed since that snapshot, which is committed."""
        return WindowCapture(self._machine, self._component, self._task, number, since)

    def committed(self, number: int) -> None:
        """The snapshot counts: no delta builds on an earlier one any more."""
        self._committed = number
        self._machine.committed(number)

    def check_first_rows(self) -> None:
        """UnsavableError if one of some windows cannot be saved: long before the first snapshot."""
        frozen = self._machine.freeze()
        packer = _WindowPacker(frozen, self._component, self._task)
        packer.head(frozen)
        packer.rows(lambda: frozen.sample(FEW_ROWS))


class WindowCapture:
    """The content of windows at the time of this call, to be packed in slices. At most one of a machine at a time."""

    section = WINDOWS

    def __init__(self, machine: Machine[Any], component: str, task: int, number: int, since: int | None) -> None:
        self.full = since is None
        """Whether it is all of it."""
        self._machine = machine
        self._number = number
        self._frozen = frozen = machine.freeze(number, since)
        self._packer = _WindowPacker(frozen, component, task)
        self.size = frozen.size + 1
        """How many keys the windows have in all tables, and the head."""
        frozen.watch(self._packer.copied)
        self.rows = frozen.rows
        """How many keys it contains, those that were removed included."""
        try:
            self._head = self._packer.head(frozen)
        except UnsavableError:
            self.give_back()
            raise

    def slices(self, stopwatch: Callable[[], float]) -> Iterator[PackedChunk]:
        """The chunks. Other code may run between two of them. UnsavableError; the capture is over then."""
        rows = FIRST_ROWS
        try:
            yield from self._head
            while True:
                began_s = stopwatch()
                made = self._packer.rows(partial(self._frozen.take, rows))
                took_s = stopwatch() - began_s
                if not made:
                    return
                yield from made
                ended = self._packer.last_rows < rows  # another table follows, whose rows may take longer
                largest = max(len(chunk.data) for chunk in made)
                rows = min(rows, FIRST_ROWS) if ended else next_rows(rows, took_s, largest)
        finally:
            self._frozen.end()

    def give_back(self) -> None:
        """The snapshot was not saved: the next delta contains these keys, too."""
        self._frozen.end()
        self._machine.aborted(self._number)


class _WindowPacker:
    """Packs the rows of the windows of one task. `last_rows`: how many rows the last call has packed."""

    __slots__ = ("_component", "_kind", "_packer", "_task", "_titles", "last_rows")

    def __init__(self, frozen: Frozen, component: str, task: int) -> None:
        inner = frozen.head.get("machine", frozen.head)
        self.last_rows = 0
        self._component = component
        self._kind = inner["kind"]
        self._packer = RowPacker(component, task, WINDOWS)
        self._task = task
        self._titles: Sequence[str] = inner["settings"].get("aggregates", ())

    def head(self, frozen: Frozen) -> list[PackedChunk]:
        """The head chunk. UnsavableError if a result that is due cannot be saved."""
        state = frozen.head["state"]
        head = frozen.head, frozen.rows, frozen.dropped
        try:
            return self._packer.chunks([None], [head])
        except UnsavableError as error:
            # Of aggregates: start, end, final, key, …; of windows of rows: start, end, key, …
            key_at = 3 if self._titles else 2
            for result in state.get("ready", ()):
                self._check(result[key_at], result, f"a result that is due ({self._kind})", error)
            raise

    def rows(self, take: Callable[[], list[TableRows]]) -> list[PackedChunk]:
        """The rows that `take` gives."""
        keys: list[tuple[int | str, Any]] = []
        values: list[Any] = []
        try:
            parts = take()
            self.last_rows = sum(len(part.keys) for part in parts)
        except StatePackError as error:
            raise self._unsavable(error.key, error.state, str(error)) from error
        for part in parts:
            keys += zip(repeat(part.table), part.keys)
            values += part.rows if None not in part.rows else [REMOVED if row is None else row for row in part.rows]
        try:
            return self._packer.chunks(keys, values)
        except UnsavableError as error:
            self._name(error)
            raise

    def copied(self, table: int | str, key: Any, values: tuple[Any, ...]) -> tuple[Any, ...]:
        """Values that are going to change."""
        if ATOMS.issuperset(map(type, values)):
            return values
        try:
            copy: tuple[Any, ...] = unpack_value(pack_value(values))
        except UnsendableError as error:
            unsavable = UnsavableError(self._component, self._task, (table, key), values, str(error))
            self._name(unsavable)
            raise unsavable from error
        return copy

    def _name(self, error: UnsavableError) -> None:
        """Raise an error that names the window and the type of the state, if that is where it fails."""
        (table, key), values = cast("Any", error.key), cast("Any", error.culprit)
        if type(values) is not tuple or values is error.key:
            values = ()
        where = f"the window or slice from {table}" if isinstance(table, int) else f"its {table}"
        for place, value in enumerate(values):
            title = f", the state of {self._titles[place]}" if len(self._titles) == len(values) else ""
            self._check(key, value, f"{self._kind}, {where}{title}", error)
        self._check(key, key, f"{self._kind}, {where}", error)

    def _check(self, key: Any, value: Any, where: str, cause: UnsavableError) -> None:
        try:
            pack_value(value)
        except UnsendableError as error:
            raise self._unsavable(key, value, f"{where}: {error}") from cause

    def _unsavable(self, key: Any, value: Any, reason: str) -> UnsavableError:
        return UnsavableError(self._component, self._task, key, value, reason)
