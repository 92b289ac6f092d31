"""Aggregates: how the rows of a window become its result while the window is open. No row is kept.

    init_state(window) ─► state ─ execute(value, state, window) ─► state ─ … ─ purge(state, window) ─► result
                            └────────── merge(first, second) ─────┘

1. `execute` returns the next state, or None if it has changed the state that it was given. A state is never None.
2. `merge` (if there is one) and `purge` do not change their arguments: windows share states. `first` is of earlier
   slices, or of the session that begins earlier.
3. With `merge`, sliding windows are built from slices, and `init_state` and `execute` are called with slices, not with
   windows. Rows are then in the order of their slices, and within a slice in the order of arrival.
4. `purge` is called once for each key and window. (Ready-made aggregates, which change nothing, get many keys at once.)
5. A row that fails is in no part of a Combined: an aggregate that changes its state in place has a `ready_for`.
6. `execute_batch` is given rows that `takes` has accepted, and then cannot fail.
7. A state that cannot be sent to another process is dumped and loaded by `pack_state` and `unpack_state` (dumps.py).

From: JStorm, BaseWindowedBolt (initWindowState, execute, purgeWindow) and WindowStateMerger.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .errors import WindowError
from .values import Result, RowKey, State, Value

if TYPE_CHECKING:
    from .window import Window

States = dict[RowKey, State]
"""Key → state."""


class Aggregate:
    """Base class. Write `init_state`, `execute`, `purge`, and `merge` if two states can be merged."""

    def init_state(self, window: Window) -> State:
        """The state of an empty window."""
        raise NotImplementedError(f"{type(self).__qualname__} has no init_state(window)")

    def execute(self, value: Value, state: State, window: Window) -> State:
        """Add a row. Returns the next state, or None if `state` itself was changed."""
        raise NotImplementedError(f"{type(self).__qualname__} has no execute(value, state, window)")

    def purge(self, state: State, window: Window) -> Result:
        """The result of a window that has fired."""
        return state

    def merge(self, first: State, second: State) -> State:
        """One state made of two, which stay unchanged."""
        raise WindowError(f"{type(self).__qualname__} has no merge(first, second)")

    def pack_state(self, state: State) -> Value:
        """A state as a value that can be sent to another process, for a dump. Write it if states are no such values.

        Without it a state is dumped as it is. The result must not change when the state does, and is never None.
        """
        return state

    def unpack_state(self, value: Value) -> State:
        """The state of which `pack_state` has made this value; never None."""
        return value

    @property
    def packs_states(self) -> bool:
        """Whether there is a `pack_state`."""
        return type(self).pack_state is not Aggregate.pack_state

    @property
    def gives_states(self) -> bool:
        """Whether a result is the state itself."""
        return type(self).purge is Aggregate.purge and type(self).together is Aggregate.together

    @property
    def title(self) -> str:
        """The name in error messages."""
        return type(self).__qualname__

    @property
    def merges(self) -> bool:
        """Whether there is a `merge`."""
        return type(self).merge is not Aggregate.merge

    def ready_for(self, value: Value) -> None:
        """Raise what `execute` would raise for this row, and change nothing: afterwards `execute` does not fail.

        For aggregates that change their state in place: a row that fails in one part of a Combined is then in no part.
        """

    @property
    def changes_in_place(self) -> bool:
        """Whether there is a `ready_for`."""
        return type(self).ready_for is not Aggregate.ready_for

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields of rows that it uses by name."""
        return ()

    @property
    def whole(self) -> bool:
        """Whether it uses rows other than by the names of fields."""
        return True

    @property
    def wants_a_field(self) -> bool:
        """Whether rows of several fields are useless to it until one field is named."""
        return False

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the parts of a result; empty: the result has no parts."""
        return ()

    def in_rows(self) -> Aggregate:
        """The same aggregate; if it has `names`, its results are tuples in that order."""
        return self

    def bound(self, fields: Sequence[str]) -> Aggregate:
        """The same aggregate for rows with these fields: names are resolved to positions."""
        return self

    @property
    def parts(self) -> tuple[Aggregate, ...]:
        """The aggregates that this one consists of; each has its own states."""
        return (self,)

    def together(self, results: Sequence[Result]) -> Result:
        """One result made of the results of the parts."""
        return results[0]

    def new_states(self) -> States:
        """A dict of any kind for the states of a window's keys; `execute_batch` is given it."""
        return {}

    @property
    def purges_at_once(self) -> bool:
        """Whether results come from a `purge_batch` that changes nothing, or are the states themselves."""
        return self._is_newer("purge_batch", "purge")

    def purge_batch(self, keys: Sequence[RowKey], states: States, window: Window) -> list[Result]:
        """The results of these keys, in the same order."""
        return [states[key] for key in keys]

    def together_batch(self, results: Sequence[Sequence[Result]]) -> Sequence[Result]:
        """`together` for all keys: results by part, then by key."""
        return results[0]

    def column(self, values: Sequence[Value]) -> Sequence[Value]:
        """The column that `execute_batch` gets of these rows. May raise."""
        return values

    def takes(self, values: Sequence[Value]) -> bool:
        """Whether `execute_batch` can process these values."""
        return False

    @property
    def batches(self) -> bool:
        """Whether there is an `execute_batch` that was written with or after `init_state` and `execute`."""
        return type(self).execute_batch is not Aggregate.execute_batch and all(
            self._is_newer("execute_batch", method) for method in ("init_state", "execute")
        )

    def execute_batch(self, keys: Sequence[RowKey], values: Sequence[Value], states: States) -> None:
        """Add rows of one window: `values[i]` belongs to `keys[i]`."""
        raise NotImplementedError(f"{type(self).__qualname__} takes no batches")

    def _is_newer(self, method: str, other: str) -> bool:
        """Whether `method` is defined in the class that defines `other`, or in a subclass of it."""
        for kind in type(self).__mro__:
            if method in vars(kind):
                return True
            if other in vars(kind):
                return False
        return False
