"""State codec: the states and the results of an aggregate as plain values, and back.

1. A state is what `pack_state` of its aggregate makes of it; without a `pack_state` it is the state itself.
2. A result that was not taken yet is packed like a state if it is one: if the aggregate has no `purge`.
3. An error of a result becomes its text: a WindowError that names the type of the error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from types import NoneType
from typing import TYPE_CHECKING

from .dumps import check, damaged, picked, whole_number
from .errors import StatePackError, WindowError
from .frozen import Columns, Table
from .window import EarlyWindow, Fired, Window

if TYPE_CHECKING:
    from .aggregate_runner import Columns as States
    from .aggregates import Aggregate
    from .values import RowKey, State, Value


class StateCodec:
    """Packs and unpacks what windows keep for one aggregate."""

    def __init__(self, aggregate: Aggregate) -> None:
        self._aggregate = aggregate
        self._parts = aggregate.parts

    @property
    def titles(self) -> list[str]:
        """The titles of the parts of the aggregate."""
        return [part.title for part in self._parts]

    def table(self, states: States) -> Table:
        """A table of these states."""
        return Table(states[0].keys(), partial(self.pack_columns, states))

    def pack_columns(self, states: States, keys: Iterable[RowKey] | None = None) -> Columns:
        """The states by key of each part; with `keys`, of those only."""
        keys = None if keys is None else list(keys)
        packed: Columns = []
        for part, by_key in zip(self._parts, states, strict=True):
            if not part.packs_states:
                packed.append(dict(by_key if keys is None else picked(by_key, keys)))
            else:
                packed.append({key: self._pack(part, state, key) for key, state in picked(by_key, keys)})
        return packed

    def unpack_columns(self, columns: Columns) -> States:
        """The reverse of pack_columns."""
        check(len(columns) == len(self._parts), f"{len(columns)} columns of states of {len(self._parts)} aggregates")
        unpacked: States = []
        for part, column in zip(self._parts, columns, strict=True):
            states = part.new_states()
            for key, packed in column.items():
                states[key] = self._unpack(part, packed, key)
            unpacked.append(states)
        return unpacked

    def pack(self, states: Sequence[State], key: RowKey) -> list[Value]:
        """The states of one key and window."""
        return [self._pack(part, state, key) for part, state in zip(self._parts, states, strict=True)]

    def unpack(self, packed: Sequence[Value], key: RowKey) -> list[State]:
        """The reverse of pack."""
        check(isinstance(packed, list) and len(packed) == len(self._parts), f"the states of key {key!r:.100}")
        return [self._unpack(part, state, key) for part, state in zip(self._parts, packed, strict=True)]

    def pack_fired(self, fired: Fired) -> tuple[Value, ...]:
        """A result that was not taken yet."""
        window, key, result, error = fired
        if error is None and self._aggregate.gives_states:
            result = self._pack(self._parts[0], result, key)
        text = None if error is None else str(error)
        if type(error) not in (NoneType, WindowError):
            text = f"{type(error).__name__}: {text}"
        return window.start, window.end, window.final, key, result, text

    def unpack_fired(self, packed: Value) -> Fired:
        """The reverse of pack_fired."""
        start, end, final, key, result, text = packed
        window = window_of(start, end) if final else EarlyWindow(*_bounds(start, end))
        if text is None and self._aggregate.gives_states:
            result = self._unpack(self._parts[0], result, key)
        return Fired(window, key, result, None if text is None else WindowError(text))

    def _pack(self, part: Aggregate, state: State, key: RowKey) -> Value:
        return _called(part.pack_state, state, part, "pack_state", key) if part.packs_states else state

    def _unpack(self, part: Aggregate, packed: Value, key: RowKey) -> State:
        if packed is None:
            raise damaged(f"key {key!r:.100} has no state of {part.title}")
        return _called(part.unpack_state, packed, part, "unpack_state", key) if part.packs_states else packed


def window_of(start: Value, end: Value) -> Window:
    """A window with these bounds, which are checked."""
    return Window(*_bounds(start, end))


def _bounds(start: Value, end: Value) -> tuple[int, int]:
    check(whole_number(start, "the start of a window") < whole_number(end, "the end of a window"), "an empty window")
    return start, end


def _called(method: Callable[[Value], Value], value: Value, part: Aggregate, name: str, key: RowKey) -> Value:
    try:
        returned = method(value)
    except Exception as error:
        text = f"{part.title}.{name} raised {type(error).__name__} for the state of key {key!r:.100}: {error}"
        raise StatePackError(text, key, value) from error
    if returned is None:
        raise StatePackError(f"{part.title}.{name} returned None for the state of key {key!r:.100}", key, value)
    return returned
