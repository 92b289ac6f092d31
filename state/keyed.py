"""Keyed state: what a bolt declares, and the dict that it gets.

    state = KeyedState(key="word")  ─► context.state: State, a dict with the keys of this task
    state = ValueState(0)           ─► context.state: Value, one value for the task

    touch_keys(keys of a batch) ─► rows are executed: state[key] = … ─► freeze: what was touched since the last one
    put, discard, mark     ─► the same for keys that are not in the input

1. State overrides no method of dict: reading and writing cost what they cost in a dict. So it does not notice changes;
   the executor touches the keys of a batch before it executes the rows.
2. A key is touched before its value changes: while a snapshot is packed, the watcher packs the old value then.
3. A key of one field is the value of that field; a key of several fields is the Python tuple of their values.

From: Flink's keyed state, without its access methods (get and put for each row cost more than the rest of a word
count).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from typing import Any, Generic, Protocol, TypeVar, cast

from ..topology import Fields
from ..transport.codec import UnsendableError, pack_value, unpack_value
from .errors import StateError, UnmarkedError

K = TypeVar("K")
V = TypeVar("V")


class Watcher(Protocol):
    """Packs values before they change: the running capture of a snapshot."""

    def keep(self, keys: Collection[Any]) -> None:
        """The values of these keys are going to change."""
        ...

    def keep_all(self) -> None:
        """All values may change."""
        ...


class State(dict[K, V]):
    """The state of a task by key: a dict. `items`: the restored content.

    For the keys of the rows that a bolt executes, nothing is needed. Other keys are changed with `put` and `discard`,
    or `mark` is called before the change.
    """

    __slots__ = ("_touched", "everything", "rows", "watcher")

    def __init__(self, items: Mapping[K, V] | Iterable[tuple[K, V]] = ()) -> None:
        super().__init__(items)
        self._touched: set[K] = set()
        self.everything = False
        """Whether the next snapshot must be full. (No property: it is read for each segment of rows.)"""
        self.rows = 0
        """How many rows were executed since the last freeze, whether their keys were touched or not."""
        self.watcher: Watcher | None = None
        """The capture that is being packed; None if there is none."""

    def touch_keys(self, keys: Collection[K]) -> None:
        """The rows of a batch may change the values of these keys, or remove them. Called before they do."""
        if self.watcher is not None:
            self.watcher.keep(keys)
        self._touched.update(keys)

    def put(self, key: K, value: V) -> None:
        """Set the value of a key that is not in the input."""
        self.touch_keys((key,))
        self[key] = value

    def discard(self, key: K) -> None:
        """Remove a key that is not in the input, if it is there."""
        self.touch_keys((key,))
        self.pop(key, None)

    def mark(self, key: K) -> None:
        """The value of a key that is not in the input is going to change. Call it before the change."""
        self.touch_keys((key,))

    def mark_all(self) -> None:
        """All keys may change, as with `clear` and `update`. Call it before the change. The next snapshot is full."""
        if self.watcher is not None:
            self.watcher.keep_all()
        self.everything = True

    def expect_all(self) -> None:
        """The next snapshot is full, whatever changes. Until then keys need not be touched while none is packed."""
        self.everything = True

    @property
    def touched_keys(self) -> Set[K]:
        """The keys that were touched since the last freeze, those that were removed included."""
        return self._touched

    def take_touched(self) -> set[K]:
        """The keys that were touched since the last call. From now on a new set is filled."""
        touched, self._touched = self._touched, set()
        self.everything = False
        self.rows = 0
        return touched

    def give_back(self, touched: set[K], everything: bool) -> None:
        """A snapshot of these keys was not saved: the next one contains them, too.

        If most of them were removed, the next one is full: however often it fails, their number is limited by that of
        the keys.
        """
        self._touched |= touched
        self.everything |= everything
        if len(self._touched) > len(self):
            self.everything, self._touched = True, set()

    def verify(self, saved: Mapping[K, V], where: str = "the state") -> None:
        """Compare with what full snapshot and deltas contain. UnmarkedError names a key that differs.

        For tests and simulation: it packs every value. Call it at a freeze, before the next row.
        """
        for key, value in self.items():
            if key not in saved or not _same(value, saved[key]):
                raise _unmarked(where, key, "changed")
        for key in saved:
            if key not in self:
                raise _unmarked(where, key, "was removed")


class Value(Generic[V]):
    """The state of a task: one value, saved with each snapshot."""

    __slots__ = ("value",)

    def __init__(self, value: V) -> None:
        self.value = value


class KeyedState:
    """Declares state by key: `state = KeyedState(key="word")`, or `key=("user", "day")`.

    `key`: the field or fields by which the bolt's input is grouped. `version`: increase it when the values get another
    meaning; a snapshot of another version is refused. StateError if they are wrong.
    """

    __slots__ = ("fields", "version")

    def __init__(self, key: str | Sequence[str], *, version: int = 1) -> None:
        names = (key,) if isinstance(key, str) else key
        try:
            self.fields = Fields(*names)
        except (TypeError, ValueError) as error:
            raise StateError(f"{_KEYED_ADVICE}, not {key!r:.200}: {error}") from error
        if not self.fields:
            raise StateError(f"{_KEYED_ADVICE}: there is no field. For one value per task use ValueState()")
        self.version = checked_version(version)

    @property
    def key_fields(self) -> tuple[str, ...]:
        """The names of its fields."""
        return self.fields.names

    def row_of(self, key: Any) -> tuple[Any, ...]:
        """The values of a key's fields: what the grouping hashes."""
        if len(self.fields) == 1:
            return (key,)
        row = cast("tuple[Any, ...]", key)
        if type(row) is not tuple or len(row) != len(self.fields):
            raise StateError(f"a key of {self.fields} is a tuple of {len(self.fields)} values, not {key!r:.200}")
        return row

    def __repr__(self) -> str:
        return f"KeyedState(key={self.fields.names!r}, version={self.version})"


class ValueState:
    """Declares one value per task: `state = ValueState(0)`; `context.state.value` is the value.

    `initial`: the value of a task that has no snapshot; each task gets a copy. StateError if it cannot be saved.
    """

    __slots__ = ("_initial", "version")

    key_fields: tuple[str, ...] = ()

    def __init__(self, initial: object = None, *, version: int = 1) -> None:
        try:
            self._initial = pack_value(initial)
        except UnsendableError as error:
            raise StateError(f"ValueState({initial!r:.200}): the initial value cannot be saved: {error}") from error
        self.version = checked_version(version)

    def initial(self) -> Any:
        """A copy of the initial value."""
        return unpack_value(self._initial)


_KEYED_ADVICE = 'KeyedState takes the name of a field, key="word", or of several, key=("user", "day")'


def checked_version(version: object) -> int:
    """The version of a state if it is a positive int; else StateError."""
    if type(version) is not int or version < 1:
        raise StateError(f"the version of a state is an int of at least 1, not {version!r:.200}")
    return version


def _same(value: object, other: object) -> bool:
    """Equal, and of one type. Packed values are compared first: NaN is not equal to itself, an array has no `==`."""
    packed, packed_other = pack_value(value), pack_value(other)
    if packed == packed_other:
        return True
    if len(packed) != len(packed_other) or type(value) is not type(other):
        return False
    try:
        return bool(value == other)  # equal sets may have other orders
    except ValueError:  # NumPy: arrays that differ
        return False


def _unmarked(where: str, key: object, what: str) -> UnmarkedError:
    return UnmarkedError(
        f"{where}: key {key!r:.200} {what} and was not marked: use state.put(key, value) or state.discard(key), or "
        "call state.mark(key) before the change, for keys that are not in the input"
    )
