"""Deltas: the state of a task at one moment as chunks of bytes, in full or what was touched.

    freeze ─► Capture ── slices ─► chunk ─► chunk ─► …            apply(chunks of the full snapshot, then of each delta)
               ▲ keep(keys): their values are packed now, because they are going to change

1. A capture contains the state as it was at the freeze, whatever happens while it is packed. The values are copied to a
   list (not those of a large delta: that takes too long). A value that is not copied, or that can change in place, is
   packed before a batch changes it. It may then be packed twice, with the same content. Where all values are copied and
   none can change in place, the capture watches no longer: rows are then executed without it.
2. A delta has the keys that were touched since the last freeze. A touched key that is no longer there was removed.
3. Packing is done in slices of about SLICE_S. `keep` packs only keys that are going to change.
4. The order of keys is not kept.

From: Flink's copy-on-write state table (CopyOnWriteStateMap) and changelog; only the touched keys are known here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING, Any, Final

from ..runtime import age_objects
from .chunks import ATOMS, FIRST_ROWS, MOST_ROWS, REMOVED, PackedChunk, RowPacker, next_rows
from .errors import UnsavableError

if TYPE_CHECKING:
    from .keyed import State

_NOTHING: Final = PackedChunk(b"", 0)

COPIED_KEYS: Final = 10_000
"""The values of a delta are copied at the freeze up to so many keys: that takes less than 10 ms."""


class Capture:
    """The content of a state at the time of this call, to be packed in slices. At most one of a state at a time.

    `full`: the whole state; else what was touched since the last capture (the whole state after `mark_all`).
    `component` and `task` are for errors.
    """

    def __init__(self, state: State[Any, Any], component: str, task: int, *, full: bool, section: int = 0) -> None:
        if state.watcher is not None:
            raise ValueError(f"{component}, task {task}: a capture of this state is being packed")
        self._everything = state.everything
        self.full = full or self._everything
        """Whether it contains the whole state."""
        self.size = len(state)
        """How many keys the state has."""
        self.section = section
        """Which state of the task it is."""
        self._state = state
        self._packing = RowPacker(component, task, section)
        self._touched = state.take_touched()
        self._keys = list(state if self.full else self._touched)
        self._values = self._copied()
        if len(self._keys) > COPIED_KEYS:
            age_objects()  # a collection would follow each of the keys and values, and the event loop would wait
        self._kinds: frozenset[type] | None = None  # of the copied values, if none can change in place
        self._early = _Early()
        state.watcher = self

    @property
    def rows(self) -> int:
        """How many keys it contains, those that were removed included."""
        return len(self._keys)

    def slices(self, stopwatch: Callable[[], float]) -> Iterator[PackedChunk]:
        """The chunks. Other code may run between two of them. UnsavableError; the capture is over then."""
        rows = FIRST_ROWS
        try:
            yield from self._looked_at()
            while self._keys:
                began_s = stopwatch()
                made = self._packed(rows)
                took_s = stopwatch() - began_s
                yield from made
                yield from self._taken_early()
                largest = max((len(chunk.data) for chunk in made), default=0)
                rows = next_rows(rows, took_s, largest)
        finally:
            self._end()
        yield from self._taken_early()

    def give_back(self) -> None:
        """The snapshot was not saved: the next delta contains these keys, too."""
        self._end()
        self._state.give_back(self._touched, self._everything)

    def keep(self, keys: Collection[Any]) -> None:
        state = self._state
        fresh = set(keys).difference(state.touched_keys)  # their values are those of the freeze
        if not self.full:
            fresh &= self._touched
        if self._values is None:
            self._pack_early(fresh)
        else:
            self._pack_early({key for key in fresh if key in state and type(state[key]) not in ATOMS})

    def keep_all(self) -> None:
        self.keep(self._keys)
        self._end()

    def _copied(self) -> list[Any] | None:
        """The values of the keys; None if that takes too long: then they are packed before they change."""
        state = self._state
        if self.full:
            return list(state.values())
        if len(self._keys) > COPIED_KEYS:
            return None
        return [state.get(key, REMOVED) for key in self._keys]

    def _looked_at(self) -> Iterator[PackedChunk]:
        """Watch no longer if none of the copied values can change in place. An empty chunk: other code may run."""
        values, kinds = self._values, set[type]()
        if values is None:
            return
        for at in range(0, len(values), MOST_ROWS):
            if at:
                yield _NOTHING
            kinds.update(map(type, values[at : at + MOST_ROWS]))
            if not kinds <= ATOMS:
                return
        self._kinds = frozenset(kinds)
        self._end()

    def _packed(self, rows: int) -> list[PackedChunk]:
        """Pack the last keys of the list, and drop them: to free a long list at once would take milliseconds."""
        early = self._early
        if early.failed is not None:
            raise early.failed
        keys = self._keys[-rows:]
        del self._keys[-rows:]
        if self._values is None:
            state = self._state
            values = [state.get(key, REMOVED) for key in keys]
        else:
            values = self._values[-rows:]
            del self._values[-rows:]
        if early.keys and not early.keys.isdisjoint(keys):
            left = [place for place, key in enumerate(keys) if key not in early.keys]
            keys, values = [keys[place] for place in left], [values[place] for place in left]
        return self._packing.chunks(keys, values, self._kinds)

    def _pack_early(self, keys: set[Any]) -> None:
        if not keys:
            return
        self._early.keys |= keys
        in_order, state = list(keys), self._state
        try:
            self._early.chunks += self._packing.chunks(in_order, [state.get(key, REMOVED) for key in in_order])
        except UnsavableError as error:  # the snapshot fails, and not the rows that are executed now
            self._early.failed = error
            self._end()

    def _taken_early(self) -> list[PackedChunk]:
        early = self._early
        if early.failed is not None:
            raise early.failed
        chunks, early.chunks = early.chunks, []
        return chunks

    def _end(self) -> None:
        if self._state.watcher is self:
            self._state.watcher = None


class _Early:
    """What was packed because it was going to change. `keys`: of all of it; `chunks`: that were not written yet."""

    __slots__ = ("chunks", "failed", "keys")

    def __init__(self) -> None:
        self.keys: set[Any] = set()
        self.chunks: list[PackedChunk] = []
        self.failed: UnsavableError | None = None


def check_savable(state: State[Any, Any], component: str, task: int) -> None:
    """UnsavableError if a touched key cannot be saved: for the first rows, long before the first snapshot."""
    keys = [key for key in state.touched_keys if key in state]
    RowPacker(component, task, 0).chunks(keys, [state[key] for key in keys])


def pack_single(value: object, component: str, task: int, section: int) -> PackedChunk:
    """A section that is one value, under the key None: packed now, since the value may change. UnsavableError."""
    (chunk,) = RowPacker(component, task, section).chunks([None], [value])
    return chunk
