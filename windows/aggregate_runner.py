"""Aggregate runner: the aggregates of windows at work: rows into states, states into results.

    value ─ ready_for (all) ─► execute: those that give a new state, then those that change theirs ─► states
    states ─ merge ─► states ─ purge ─► Fired

1. A row that fails changes nothing, in whichever part and window it fails: parts that change a state in place come
   last, when nothing can fail any more. (Changes that the user's code made before it raised remain.)
2. The user's own `purge` is called once for a key and window, whatever happens to other keys.
3. A merge that fails marks the state of that key as failed; the task goes on, and each window that uses the state
   fires with the error.
4. A state is never None: None means "the same object".
5. A merge that changes its arguments damages windows that share them. The first merges are checked, so that the error
   shows in the first test and not in wrong results.

From: JStorm, WindowedBoltExecutor, where an exception of the user's code ends the task (depart).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Sized
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from reprlib import Repr
from typing import Final

from .aggregates import Aggregate, States
from .errors import WindowError
from .state_codec import StateCodec
from .values import RowKey, State, Value
from .window import Fired, Window

Columns = list[States]
"""For each part of the aggregate, its states by key."""

Merge = Callable[[State, State], State]

_FIRED: Final = partial(tuple.__new__, Fired)  # pyright: ignore[reportUnknownMemberType]
"""`Fired._make` without Python code: a window has as many results as keys."""


CHECKED_MERGES: Final = 32
"""How many merges of each part are checked."""

_SHORT: Final = Repr()
_SHORT.maxdict = _SHORT.maxlist = _SHORT.maxset = _SHORT.maxtuple = _SHORT.maxdeque = 30
_SHORT.maxlevel = 3


@dataclass(frozen=True, slots=True)
class FailedState:
    """A state that could not be merged."""

    error: Exception


class AggregateRunner:
    """Runs one aggregate. `merges`: the merge of each part; a failure gives a `FailedState`."""

    __slots__ = ("_aggregate", "_at_once", "_has_failed", "_in_place", "_order", "_unchecked", "merges", "parts")

    def __init__(self, aggregate: Aggregate, *, shared: bool = False) -> None:
        """`shared`: several windows use the merged states."""
        self.parts = aggregate.parts
        self.merges: list[Merge] = [self._safe_merge(part, CHECKED_MERGES if shared else 0) for part in self.parts]
        self._unchecked = [
            part.merge if part.batches else safe_merge for part, safe_merge in zip(self.parts, self.merges, strict=True)
        ]
        self._aggregate = aggregate
        self._has_failed = False
        self._in_place = [part for part in self.parts if part.changes_in_place] if len(self.parts) > 1 else []
        self._order = sorted(range(len(self.parts)), key=lambda at: self.parts[at].changes_in_place)
        self._at_once = all(part.purges_at_once for part in self.parts)

    def unchecked_merges(self) -> list[Merge]:
        """The merges, without protection for plain numbers: the caller handles their exceptions."""
        return self.merges if self._has_failed else self._unchecked

    def codec(self) -> StateCodec:
        """What packs the states and results for a dump."""
        return StateCodec(self._aggregate)

    def new_columns(self) -> Columns:
        """Empty states of each part."""
        return [part.new_states() for part in self.parts]

    def init(self, window: Window) -> list[State]:
        """The states of an empty window."""
        return [part.init_state(window) for part in self.parts]

    def states_of(self, columns: Columns, key: RowKey, window: Window) -> list[State]:
        """The states of a key; new ones, not yet stored, if it has none."""
        return [
            states[key] if key in states else part.init_state(window)
            for part, states in zip(self.parts, columns, strict=True)
        ]

    def executed(self, value: Value, before: Sequence[tuple[Window, list[State]]]) -> list[list[State]]:
        """The next states of a row's windows, made of the states before."""
        if len(self.parts) == 1:
            only = self.parts[0]
            return [[next_state(only, only.execute(value, state, window), state)] for window, (state,) in before]
        for part in self._in_place:
            part.ready_for(value)
        after = [states.copy() for _, states in before]
        for at in self._order:
            execute = self.parts[at].execute
            for (window, states), following in zip(before, after, strict=True):
                following[at] = next_state(self.parts[at], execute(value, states[at], window), states[at])
        return after

    def fired(self, window: Window, keys: Sequence[RowKey], columns: Columns) -> list[Fired]:
        """The results of a window for some of its keys."""
        if self._at_once and not self._has_failed:
            try:
                pairs = zip(self.parts, columns, strict=True)
                results = self._aggregate.together_batch(
                    [part.purge_batch(keys, states, window) for part, states in pairs]
                )
                rows = zip(repeat(window, len(keys)), keys, results, repeat(None, len(keys)), strict=True)
                return list(map(_FIRED, rows))
            except Exception:  # batch purges change nothing: find the key by purging one by one
                self._at_once = False
        return [self.fired_one(window, key, [states[key] for states in columns]) for key in keys]

    def fired_one(self, window: Window, key: RowKey, states: Sequence[State]) -> Fired:
        """The result of a window for one key."""
        try:
            for state in states:
                if type(state) is FailedState:
                    return Fired(window, key, None, state.error)
            results = [part.purge(state, window) for part, state in zip(self.parts, states, strict=True)]
            return Fired(window, key, self._aggregate.together(results))
        except Exception as error:  # only this key's window fails
            return Fired(window, key, None, error)

    def _safe_merge(self, part: Aggregate, checks: int) -> Merge:
        merge = part.merge

        def safe_merge(first: State, second: State) -> State:
            nonlocal checks
            if type(first) is FailedState or type(second) is FailedState:
                return first if type(first) is FailedState else second
            try:
                if checks:
                    checks -= 1
                    merged = _checked_merge(part, first, second)
                else:
                    merged = merge(first, second)
                if merged is None:
                    raise no_state(part, "merge")
            except Exception as error:  # the windows of this key fire with the error
                self._has_failed = True
                return FailedState(error)
            return merged

        return safe_merge


def _checked_merge(part: Aggregate, first: State, second: State) -> State:
    before = _fingerprint(first), _fingerprint(second)
    merged = part.merge(first, second)
    if merged is not None and (_fingerprint(first), _fingerprint(second)) != before:
        raise WindowError(
            f"{part.title}.merge(first, second) changed its arguments, which other windows use too; return a new state"
        )
    return merged


def _fingerprint(state: State) -> tuple[int, str] | None:
    """A short fingerprint that shows whether a state has changed."""
    try:
        return len(state) if isinstance(state, Sized) else 0, _SHORT.repr(getattr(state, "__dict__", state))
    except Exception:  # an error of a user's repr
        return None


def next_state(part: Aggregate, following: State | None, state: State) -> State:
    """The state that `execute` returned; the old state if it returned None."""
    if following is not None:
        return following
    if state is None:
        raise no_state(part, "execute")
    return state


def check_state(state: State | None) -> State:
    """The state; raises its error if it is a FailedState."""
    if type(state) is FailedState:
        raise state.error
    return state


def no_state(part: Aggregate, method: str) -> WindowError:
    """The error for a method that gives None as a state."""
    return WindowError(
        f"{part.title}.{method} returned None, and there is no other state; return the state, and let "
        "init_state(window) return one that is not None"
    )
