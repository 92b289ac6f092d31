"""Aggregate: what a window is boiled down to while it is open; nothing of its rows is kept.

    init_state(window) ─► state ─ execute(value, state, window) ─► state ─ … ─ purge(state, window) ─► result
                            └────────── merge(first, second) ─────┘

1. `execute` returns the next state, or None if it has changed the one that it was given. No state is None.
2. `merge` (if there is one) and `purge` change nothing that they are given: states are shared between windows.
   `first` is of earlier slices, or of the session that begins earlier.
3. With `merge`, sliding windows are put together from slices, and `init_state` and `execute` see slices, not windows.
   Which rows come first in a state is then told by their slices, and within one by their coming: whenever they came.
4. `purge` is called once for a key and window. (Ready-made ones, which only look, are asked for many keys at once.)
5. A row that fails is in no part of a Combined: what changes a state in place has a `ready_for`.
6. `execute_batch` takes rows that `takes` has said yes to, and then cannot fail.

From: JStorm, BaseWindowedBolt (initWindowState, execute, purgeWindow) and WindowStateMerger.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .errors import WindowError
from .window import Window

States = dict[Any, Any]
"""Key → state."""


class Aggregate:
    """Base of all; write `init_state`, `execute`, `purge`, and `merge` if two states can be made one."""

    def init_state(self, window: Window) -> Any:
        """The state of a window with nothing in it."""
        raise NotImplementedError(f"{type(self).__qualname__} has no init_state(window)")

    def execute(self, value: Any, state: Any, window: Window) -> Any:
        """A row. Returns the next state, or None: it is the same object."""
        raise NotImplementedError(f"{type(self).__qualname__} has no execute(value, state, window)")

    def purge(self, state: Any, window: Window) -> Any:
        """The window has fired: its result."""
        return state

    def merge(self, first: Any, second: Any) -> Any:
        """One state out of two, which stay as they are."""
        raise WindowError(f"{type(self).__qualname__} has no merge(first, second)")

    @property
    def title(self) -> str:
        """What errors call it."""
        return type(self).__qualname__

    @property
    def merges(self) -> bool:
        """Is there a `merge`?"""
        return type(self).merge is not Aggregate.merge

    def ready_for(self, value: Any) -> None:
        """Raises what `execute` would for this row, and changes nothing: after that `execute` does not fail.

        For those that change their state in place, so that a row that fails in one part of a Combined is in none.
        """

    @property
    def changes_in_place(self) -> bool:
        """Is there a `ready_for`?"""
        return type(self).ready_for is not Aggregate.ready_for

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields of rows that it names."""
        return ()

    @property
    def whole(self) -> bool:
        """Does it look at rows otherwise than by the names of fields?"""
        return True

    @property
    def wants_a_field(self) -> bool:
        """Can it do nothing with a row of several fields, unless it is told which?"""
        return False

    @property
    def names(self) -> tuple[str, ...]:
        """By which the parts of a result are told apart; empty: there are none."""
        return ()

    def in_rows(self) -> Aggregate:
        """The same; if it has `names`, results are tuples, in their order."""
        return self

    def bound(self, fields: Sequence[str]) -> Aggregate:
        """The same, for rows of these fields: names have become places."""
        return self

    @property
    def parts(self) -> tuple[Aggregate, ...]:
        """The aggregates that this one is made of: each has states of its own."""
        return (self,)

    def together(self, results: Sequence[Any]) -> Any:
        """One result out of those of the parts."""
        return results[0]

    def new_states(self) -> States:
        """Where the states of a window's keys are kept, and what `execute_batch` is given: a dict of any kind."""
        return {}

    @property
    def purges_at_once(self) -> bool:
        """Are results made by a `purge_batch` that changes nothing, or are they the states themselves?"""
        return self._is_newer("purge_batch", "purge")

    def purge_batch(self, keys: Sequence[Any], states: States, window: Window) -> list[Any]:
        """The results of keys, in their order."""
        return [states[key] for key in keys]

    def together_batch(self, results: Sequence[Sequence[Any]]) -> Sequence[Any]:
        """The same for all keys: results by part, then by key."""
        return results[0]

    def column(self, values: Sequence[Any]) -> Sequence[Any]:
        """What `execute_batch` is to be given of rows. May raise."""
        return values

    def takes(self, values: Sequence[Any]) -> bool:
        """Can `execute_batch` do it with these?"""
        return False

    @property
    def batches(self) -> bool:
        """Is there an `execute_batch`, and is it of the same mind as `init_state` and `execute`?"""
        return type(self).execute_batch is not Aggregate.execute_batch and all(
            self._is_newer("execute_batch", method) for method in ("init_state", "execute")
        )

    def execute_batch(self, keys: Sequence[Any], values: Sequence[Any], states: States) -> None:
        """Rows of one window: `values[i]` is of `keys[i]`."""
        raise NotImplementedError(f"{type(self).__qualname__} takes no batches")

    def _is_newer(self, method: str, other: str) -> bool:
        """Was it written by the class that wrote the other, or by one that is made of that?"""
        for kind in type(self).__mro__:
            if method in vars(kind):
                return True
            if other in vars(kind):
                return False
        return False
