"""Groupings by key: equal keys go to the same task (or to the same two).

    row ──named fields──▶ key ──stable_hash──▶ 61 bits ──▶ task          (fields)
                                                      ──▶ range ──▶ task (key range: state can move with its range)
                                                      ──▶ two tasks, the less used one (partial key)

1. The target is a function of the key and the number of targets: the same in every process and on every machine.
2. The result for a key may be remembered (key_memory.py): this affects only the speed.
3. A key that cannot be hashed is an `UnhashableKeyError` with component, stream and field.
4. The keys of a batch of columns are hashed column by column, to the same hashes: each row goes to the same
   target as alone.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Generic

from ..errors import UnhashableKeyError
from ..keys import value_hash
from .base import Grouping, GroupingContext
from .key_memory import Found, KeyMemory

if TYPE_CHECKING:
    from ..column_keys import Hashes
    from ..column_split import Places
    from ..streams import StreamId
    from ..tuples import Row
    from ..values import Key, RecordBatch, Value


class KeyedGrouping(Grouping, Generic[Found]):
    """The base of groupings by key: the key of a row, and the memory of `_compute`'s results."""

    def __init__(self, fields: Sequence[str]) -> None:
        self.key_fields = tuple(fields)

    def prepare(self, context: GroupingContext, stream: StreamId, targets: Sequence[int]) -> None:
        """Find the positions of the key's fields."""
        super().prepare(context, stream, targets)
        positions = [context.fields.position(name) for name in self.key_fields]
        self._single = len(positions) == 1
        self._key: Callable[[Row], Key] = itemgetter(*positions)
        # One memory for all tasks of the emitting component in this process, and for all consumers with as many tasks:
        # all of them get the same keys.
        same = (type(self), stream, self.key_fields, self._remembered_for())
        memory = context.shared.get(same)
        if memory is None:
            memory = context.shared[same] = KeyMemory(self._compute_all, context.cache_keys, single=self._single)
        self._memory: KeyMemory[Found] = memory

    def _remembered_for(self) -> object:
        """What the remembered value depends on besides the key."""
        return len(self.targets)

    @abstractmethod
    def _compute(self, hashed: int) -> Found:
        """The value to remember for a key, from its hash."""

    def _compute_all(self, hashes: list[int]) -> list[Found]:
        return list(map(self._compute, hashes))

    def split_columns(self, batch: RecordBatch) -> list[tuple[int, RecordBatch]]:
        """Each row to the target of its key, without making rows."""
        from ..column_split import dealt  # pyarrow and NumPy: only where there are columns

        hashes = self.hashes_of(batch)
        if len(self.targets) == 1:  # the keys were still hashed: an invalid key must be an error here too
            return [(self.targets[0], batch)]
        return dealt(batch, None, self.places(hashes), self.targets)

    def hashes_of(self, batch: RecordBatch) -> Hashes:
        """The hash of each row's key (an array of uint64). UnhashableKeyError that names the field."""
        from ..column_keys import hash_column, hash_rows

        columns = [batch.column(name) for name in self.key_fields]
        try:
            return hash_rows(columns)
        except UnhashableKeyError:
            for name, column in zip(self.key_fields, columns, strict=True):
                try:
                    hash_column(column)
                except UnhashableKeyError as error:
                    raise self.refusal(name, error.culprit) from error
            raise

    def places(self, hashes: Hashes) -> Places:
        """The index in `targets` of the target of each hash, as int64."""
        # Its arithmetic is the same for arrays.
        compute: Callable[[Hashes], Hashes] = self._compute  # type: ignore[assignment]
        return compute(hashes).astype("int64")

    def _lookup(self, rows: Sequence[Row]) -> list[Found]:
        """The remembered value of each row's key."""
        try:
            return self._memory.find(list(map(self._key, rows)))
        except (TypeError, UnhashableKeyError) as error:  # TypeError: the dict could not hash the key
            refusal = self._refusal(rows)
            if refusal is None:
                raise
            raise refusal from error

    def _lookup_values(self, values: Sequence[Value]) -> list[Found]:
        """The same for rows with a single value."""
        try:
            return self._memory.find(values)
        except (TypeError, UnhashableKeyError):
            return self._lookup([(value,) for value in values])  # raises, with the index of the row

    def _lookup_one(self, rows: Sequence[Row]) -> Found:
        """The same for a batch of one row, as at low load."""
        try:
            return self._memory.find_one(self._key(rows[0]))
        except (TypeError, UnhashableKeyError):
            return self._lookup(rows)[0]

    def _refusal(self, rows: Sequence[Row]) -> UnhashableKeyError | None:
        """The error for the first row whose key has no hash, with the field."""
        for i, row in enumerate(rows):
            key = self._key(row)
            for name, value in zip(self.key_fields, (key,) if self._single else key, strict=True):
                culprit = _culprit(value)
                if culprit is not None:
                    error = self.refusal(name, culprit[0])
                    error.row = i
                    return error
        return None

    def refusal(self, name: str, culprit: object) -> UnhashableKeyError:
        """The error with this field and the value without a hash."""
        where = f"field {name!r} of stream {self.stream.stream!r} of {self.stream.component!r}, a key of"
        return UnhashableKeyError(culprit, f"{where} {self.context.consumer!r},")


def _culprit(value: Value) -> tuple[object] | None:
    """The inner value (in a tuple of one) because of which this one has no stable hash; None if it has one."""
    try:
        value_hash(value)
        hash(value)
    except UnhashableKeyError as error:
        return (error.culprit,)
    except TypeError:
        return (value,)
    return None
