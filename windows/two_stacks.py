"""Two stacks: the states of sliding windows, built from slices at a cost that does not grow with size / slide.

    oldest                                            newest
    slice  slice  slice │ slice  slice  slice │ slice …
    ◄──── front ────────┼──── back ───────────► not in a window that has fired
    all of it merged, and   one state: all
    for each slice: the     slices added so far
    merge without it

1. A window is the front's state merged with the back's: one merge for a key, however many slices there are.
2. When a slice leaves the front, its keys get back the merge without it. That takes one state for each key of the
   slice, so that all of it is no larger than the slices themselves.
3. When the front is empty, it is rebuilt from the slices of the back: each slice once.
4. A slice that the stacks contain is not changed in place, since its states are shared. A later row for it is merged
   into it, and everything that contains it is merged again for that key: slice by slice, the oldest first.

From: two stacks, as in K. Tangwongsan, M. Hirzel, S. Schneider, "Low-latency sliding-window aggregation in worst-case
constant time", 2017; there for one key, and with all of the front's states kept.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final

from .aggregate_runner import AggregateRunner, Columns, Merge, check_state
from .window import STEP, Window

if TYPE_CHECKING:
    from .aggregates import States
    from .values import RowKey, State

NOTHING: Final = object()


class Slices:
    """The slices that are kept, by their start."""

    __slots__ = ("columns", "starts", "windows")

    def __init__(self) -> None:
        self.starts: list[int] = []
        self.windows: dict[int, Window] = {}
        self.columns: dict[int, Columns] = {}

    def keep(self, slice_: Window, columns: Columns) -> None:
        """Keep a slice that has rows now."""
        if slice_.start not in self.columns:
            insort(self.starts, slice_.start)
            self.windows[slice_.start] = slice_
            self.columns[slice_.start] = columns

    def drop(self, count: int) -> int:
        """Drop the first slices, which are in no later window. Returns their number of states."""
        states = 0
        for start in self.starts[:count]:
            del self.windows[start]
            states += len(self.columns.pop(start)[0])
        del self.starts[:count]
        return states

    def between(self, start: int | None, end: int | None) -> list[int]:
        """The starts of the slices that begin in [start, end)."""
        low = 0 if start is None else bisect_left(self.starts, start)
        return self.starts[low : None if end is None else bisect_left(self.starts, end)]


class _FrontSlice:
    """A slice of the front: its states, and for its keys the merge of the slices after it."""

    __slots__ = ("behind", "columns", "start")

    def __init__(self, start: int, columns: Columns, behind: Columns) -> None:
        self.start = start
        self.columns = columns
        self.behind = behind


class TwoStacks:
    """The stacks of all keys, for each part. `until`: slices that begin before it have been added."""

    __slots__ = ("_back", "_back_from", "_front", "_front_until", "_fronts", "_merges", "_runner", "_slices", "until")

    def __init__(self, slices: Slices, parts: AggregateRunner) -> None:
        self.until: int | None = None
        self._slices = slices
        self._runner = parts
        self._merges = merges = parts.merges
        self._fronts: list[_FrontSlice] = []  # the newest first, so that the oldest is popped
        self._front: Columns = [{} for _ in merges]
        self._front_until: int | None = None
        self._back: Columns = [{} for _ in merges]
        self._back_from: int | None = None

    def move_to(self, window: Window) -> Iterator[None]:
        """Move on to this window; windows come in order. Yields between steps; the state is consistent at the end."""
        for start in self._slices.between(self.until, window.end):
            self._back_from = start if self._back_from is None else self._back_from
            yield from self._add_to_back(start)
        self.until = window.end
        while self._fronts and self._fronts[-1].start < window.start:
            yield from self._remove_oldest(self._fronts.pop())
        if not self._fronts and self._back_from is not None and self._back_from < window.start:
            yield from self._rebuild_front(window.start)

    def keys(self) -> list[RowKey]:
        """All keys of the window."""
        return list({**self._front[0], **self._back[0]})

    def of(self, keys: Sequence[RowKey]) -> Columns:
        """The merged states of some keys."""
        columns: Columns = []
        for safe, unchecked, front, back in zip(
            self._merges, self._runner.unchecked_merges(), self._front, self._back, strict=True
        ):
            try:
                columns.append(_joined(unchecked, front, back, keys))
            except Exception:  # the safe merges find the key; merges change nothing
                columns.append(_joined(safe, front, back, keys))
        return columns

    def add_late(self, slice_: Window, key: RowKey, states: list[State]) -> bool:
        """Add states of a key to a slice that the stacks contain. Whether the key is new in the slice."""
        columns = self._slices.columns.get(slice_.start)
        is_new = columns is None or key not in columns[0]
        if columns is None:
            empty: Columns = [{} for _ in self._merges]
            columns = empty
        if not is_new:
            known = [by_key[key] for by_key in columns]
            states = [check_state(merge(*pair)) for merge, *pair in zip(self._merges, known, states, strict=True)]
        if self._front_until is not None and slice_.start < self._front_until:
            self._join_front(slice_.start, key, columns, states)
        else:
            self._join_back(slice_.start, key, states)
        for by_key, state in zip(columns, states, strict=True):
            by_key[key] = state
        self._slices.keep(slice_, columns)
        return is_new

    @property
    def bounds(self) -> tuple[int | None, int | None, int | None]:
        """What `rebuild` needs: `until`, the end of the front, and the start of the back."""
        return self.until, self._front_until, self._back_from

    def rebuild(self, until: int | None, front_until: int | None, back_from: int | None) -> None:
        """Build the stacks with these bounds from the slices.

        States are merged in the same order as before: sums of floats depend on it.
        """
        if front_until is not None:
            self.until = front_until
            starts = self._slices.between(None, front_until)
            deque(self._rebuild_front(starts[0] if starts else front_until), maxlen=0)
        self.until, self._back_from = until, back_from
        if until is not None:
            for start in self._slices.between(front_until, until):
                deque(self._add_to_back(start), maxlen=0)

    def _add_to_back(self, start: int) -> Iterator[None]:
        for merge, states, more in zip(self._merges, self._back, self._slices.columns[start], strict=True):
            for some in _in_steps(more):
                for key, state in some:
                    states[key] = merge(states[key], state) if key in states else state
                yield

    def _remove_oldest(self, oldest: _FrontSlice) -> Iterator[None]:
        for front, states, behind in zip(self._front, oldest.columns, oldest.behind, strict=True):
            for some in _in_steps(states):
                for key, _ in some:
                    if key in behind:
                        front[key] = behind[key]
                    else:
                        del front[key]
                yield

    def _rebuild_front(self, start: int) -> Iterator[None]:
        self._front = [{} for _ in self._merges]
        for at in reversed(self._slices.between(start, self.until)):
            columns = self._slices.columns[at]
            behind: Columns = [{} for _ in self._merges]
            for merge, front, states, beyond in zip(self._merges, self._front, columns, behind, strict=True):
                for some in _in_steps(states):
                    for key, state in some:
                        if key in front:
                            beyond[key] = later = front[key]
                            front[key] = merge(state, later)
                        else:
                            front[key] = state
                    yield
            self._fronts.append(_FrontSlice(at, columns, behind))
        self._front_until = self.until
        self._back = [{} for _ in self._merges]
        self._back_from = None

    def _join_front(self, start: int, key: RowKey, columns: Columns, states: list[State]) -> None:
        at = next((at for at, front in enumerate(self._fronts) if front.start <= start), len(self._fronts))
        missing = at == len(self._fronts) or self._fronts[at].start != start
        own = _FrontSlice(start, columns, [{} for _ in self._merges]) if missing else self._fronts[at]
        fronts = [*self._fronts[:at], own, *self._fronts[at + (not missing) :]]
        changes: list[tuple[States, State]] = []
        for part, merge in enumerate(self._merges):
            joined = NOTHING
            for front in fronts:
                state = states[part] if front is own else front.columns[part].get(key, NOTHING)
                if state is not NOTHING:
                    changes.append((front.behind[part], joined))
                    joined = state if joined is NOTHING else check_state(merge(state, joined))
            changes.append((self._front[part], joined))
        for by_key, joined in changes:  # nothing can fail here
            if joined is NOTHING:
                by_key.pop(key, None)
            else:
                by_key[key] = joined
        self._fronts = fronts

    def _join_back(self, start: int, key: RowKey, states: list[State]) -> None:
        joined: list[State] = []
        starts = self._slices.between(self._front_until, self.until)
        if start not in self._slices.columns:
            insort(starts, start)
        for part, merge in enumerate(self._merges):
            whole = NOTHING
            for at in starts:
                state = states[part] if at == start else self._slices.columns[at][part].get(key, NOTHING)
                if state is not NOTHING:
                    whole = state if whole is NOTHING else check_state(merge(whole, state))
            joined.append(whole)
        for by_key, whole in zip(self._back, joined, strict=True):
            by_key[key] = whole
        self._back_from = start if self._back_from is None else min(self._back_from, start)


def _joined(merge: Merge, front: States, back: States, keys: Sequence[RowKey]) -> States:
    if not front or not back:
        states = front or back
        return {key: states[key] for key in keys}
    return {
        key: back[key] if key not in front else merge(front[key], back[key]) if key in back else front[key]
        for key in keys
    }


def _in_steps(states: States) -> Iterator[Iterator[tuple[RowKey, State]]]:
    """All items, in steps."""
    items = iter(states.items())
    for _ in range(0, len(states), STEP):
        yield islice(items, STEP)
