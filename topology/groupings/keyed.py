"""Groupings by key: equal keys go to the same task (or to the same two).

    row ──named fields──▶ key ──stable_hash──▶ 61 bits ──▶ task          (fields)
                                                      ──▶ range ──▶ task (key range: state can move with its range)
                                                      ──▶ two tasks, the one less used (partial key)

1. The target is a function of the key and the number of targets: the same in every process and on every machine.
2. What was computed for a key may be remembered (key_memory.py): that changes nothing but speed.
3. A key that cannot be hashed is an `UnhashableKeyError` naming component, stream and field.
4. The keys of a batch of columns are hashed column by column, to the same hashes: each row goes where it would go
   alone.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

from ..errors import UnhashableKeyError
from ..keys import value_hash
from ..streams import StreamId
from ..tuples import Row
from .base import Grouping, GroupingContext
from .key_memory import KeyMemory


class KeyedGrouping(Grouping):
    """What groupings by key share: the key of a row, and the memory. `_compute` says what is remembered of a hash."""

    def __init__(self, fields: Sequence[str]) -> None:
        self.key_fields = tuple(fields)

    def prepare(self, context: GroupingContext, stream: StreamId, targets: Sequence[int]) -> None:
        """Find the positions of the key's fields."""
        super().prepare(context, stream, targets)
        positions = [context.fields.position(name) for name in self.key_fields]
        self._single = len(positions) == 1
        self._key: Callable[[Row], Any] = itemgetter(*positions)
        # One memory for all tasks of the emitting component in this process, and for all consumers with as many tasks:
        # the same keys come to each of them.
        same = (type(self), stream, self.key_fields, self._remembered_for())
        memory = context.shared.get(same)
        if memory is None:
            memory = context.shared[same] = KeyMemory(self._compute_all, context.cache_keys, single=self._single)
        self._memory: KeyMemory = memory

    def _remembered_for(self) -> Any:
        """What it depends on, beside the key, what is remembered."""
        return len(self.targets)

    @abstractmethod
    def _compute(self, hashed: int) -> Any:
        """What to remember of a key, from its hash."""

    def _compute_all(self, hashes: list[int]) -> list[Any]:
        return list(map(self._compute, hashes))

    def split_columns(self, batch: Any) -> list[tuple[int, Any]]:
        """Each row where its key goes: no rows are made."""
        from ..column_split import dealt  # pyarrow and NumPy: only where there are columns

        hashes = self.hashes_of(batch)
        if len(self.targets) == 1:  # the keys were hashed all the same: a bad one must not pass for want of a choice
            return [(self.targets[0], batch)]
        return dealt(batch, None, self.places(hashes), self.targets)

    def hashes_of(self, batch: Any) -> Any:
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

    def places(self, hashes: Any) -> Any:
        """The place among `targets` of the target of each of many hashes, as int64."""
        return self._compute(hashes).astype("int64")

    def _lookup(self, rows: Sequence[Row]) -> list[Any]:
        """What is remembered of each row's key."""
        try:
            return self._memory.find(list(map(self._key, rows)))
        except (TypeError, UnhashableKeyError) as error:  # TypeError: the dict could not hash the key
            refusal = self._refusal(rows)
            if refusal is None:
                raise
            raise refusal from error

    def _lookup_values(self, values: Sequence[Any]) -> list[Any]:
        """The same where each value is its row's only one."""
        try:
            return self._memory.find(values)
        except (TypeError, UnhashableKeyError):
            return self._lookup([(value,) for value in values])  # raises, naming the row

    def _lookup_one(self, rows: Sequence[Row]) -> Any:
        """The same for a batch of one: what low load looks like."""
        try:
            return self._memory.find_one(self._key(rows[0]))
        except (TypeError, UnhashableKeyError):
            return self._lookup(rows)[0]

    def _refusal(self, rows: Sequence[Row]) -> UnhashableKeyError | None:
        """The error that names the first row whose key has no hash, and the field."""
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
        """The error that names this field, and the value to blame."""
        where = f"field {name!r} of stream {self.stream.stream!r} of {self.stream.component!r}, a key of"
        return UnhashableKeyError(culprit, f"{where} {self.context.consumer!r},")


def _culprit(value: Any) -> tuple[Any] | None:
    """The value (in a tuple of one) that is to blame if this one has no stable hash."""
    try:
        value_hash(value)
        hash(value)
    except UnhashableKeyError as error:
        return (error.culprit,)
    except TypeError:
        return (value,)
    return None
