"""Mirror: what the snapshots of a task's state contain, beside the state: every changed key must have been marked.

For tests and the simulation: it packs and compares all values with each snapshot.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...transport.codec import UnsendableError, pack_value, unpack_value

if TYPE_CHECKING:
    from ...state import State


class Mirror:
    """The mirror of one task's state. `where`: the task, for errors."""

    __slots__ = ("_saved", "_where")

    def __init__(self, where: str) -> None:
        self._saved: dict[Any, Any] | None = None  # None: no snapshot was taken
        self._where = where

    def check(self, state: State[Any, Any]) -> None:
        """A snapshot is about to be taken. UnmarkedError if it would miss a change."""
        if self._saved is None or state.everything:
            self._saved = {}
            keys = list(state)
        else:
            keys = list(state.touched_keys)
        try:
            for key in keys:
                if key in state:
                    self._saved[key] = unpack_value(pack_value(state[key]))
                else:
                    self._saved.pop(key, None)
            state.verify(self._saved, self._where)
        except UnsendableError:  # the snapshot itself names the key
            self._saved = None
