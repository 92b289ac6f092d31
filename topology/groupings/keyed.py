"""Groupings by key: equal keys go to the same task (or to the same two).

    row ──named fields──▶ key ──stable_hash──▶ 61 bits ──▶ task          (fields)
                                                      ──▶ range ──▶ task (key range: state can move with its range)
                                                      ──▶ two tasks, the one less used (partial key)

1. The target is a function of the key and the number of targets: the same in every process and on every machine.
2. What was computed for a key may be remembered (key_memory.py): that changes nothing but speed.
3. A key that cannot be hashed is an `UnhashableKeyError` naming component, stream and field.

Storm: FieldsGrouping, PartialKeyGrouping (M. A. U. Nasir et al., "The power of both choices", ICDE 2015). Key ranges:
Flink's key groups. The two candidates are always distinct (Storm 1 may draw the same twice, Storm 2 does not).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

from ..columns import RepeatedMark
from ..errors import UnhashableKeyError
from ..keys import stable_hash, value_hash
from ..streams import StreamId
from ..tuples import Row
from .base import ENDLESS, DealtMarks, Grouping, GroupingContext, Rest, Share, Spreading, share_each
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

    def places(self, hashes: Any) -> Any:
        """The places of the targets of many hashes (an array of uint64), as int64."""
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


class FieldsGrouping(KeyedGrouping):
    """Rows with equal values in these fields go to the same task: `stable_hash(key) % n` over the sorted targets."""

    def _compute(self, hashed: int) -> int:
        """The place of the target among `targets`."""
        return hashed % len(self.targets)

    def _compute_all(self, hashes: list[int]) -> list[int]:
        count = len(self.targets)
        return [hashed % count for hashed in hashes]

    def choose(self, values: Row) -> Sequence[int]:
        """The task of this row's key."""
        return (self.targets[self._lookup_one((values,))],)

    def split(self, rows: Sequence[Row], marks: Sequence[Any] | None) -> list[Share]:
        """Shares by key."""
        if len(rows) == 1:
            return [(self.targets[self._lookup_one(rows)], rows, marks)]
        return self._shares(self._lookup(rows), rows, marks)

    def split_values(self, rows: Sequence[Any], marks: Sequence[Any] | None) -> list[Share]:
        """The same where each value is its row's only one."""
        return self._shares(self._lookup_values(rows), rows, marks)

    def _shares(self, places: list[int], items: Sequence[Any], marks: Sequence[Any] | None) -> list[Share]:
        """Rows or values by the place of their target. This is the hottest loop of a word count: measure a change."""
        targets = self.targets
        if len(targets) == 1:  # the keys were looked up all the same: a bad one must not pass for want of a choice
            return [(targets[0], items, marks)] if items else []
        if len(items) <= 2 * len(targets):  # a list for each target would cost more than it saves
            return share_each([targets[place] for place in places], items, marks)
        shares: list[list[Any]] = [[] for _ in targets]
        append = [share.append for share in shares]
        for item, place in zip(items, places):  # noqa: B905 - strict costs a tenth here
            append[place](item)
        if marks is None:
            return [(targets[i], share, None) for i, share in enumerate(shares) if share]
        if isinstance(marks, RepeatedMark):
            return [(targets[i], share, marks[: len(share)]) for i, share in enumerate(shares) if share]
        dealt = DealtMarks(marks, places, len(targets))
        return [(targets[i], share, dealt.share(i)) for i, share in enumerate(shares) if share]


class KeyRanges:
    """Hash space in `n_ranges` ranges, dealt to tasks in contiguous runs whose sizes differ by at most one.

    State is kept by range, so that it can move when the number of tasks changes: a key never changes its range as long
    as the number of ranges stays.
    """

    __slots__ = ("n_ranges", "n_tasks")

    def __init__(self, n_ranges: int, n_tasks: int) -> None:
        if not 1 <= n_tasks <= n_ranges:
            raise ValueError(f"{n_tasks} tasks cannot share {n_ranges} ranges: need 1 <= tasks <= ranges")
        self.n_ranges = n_ranges
        self.n_tasks = n_tasks

    @classmethod
    def for_tasks(cls, n_tasks: int) -> KeyRanges:
        """256 ranges, or the least multiple of 256 that gives every task one."""
        return cls(max(1, -(-n_tasks // 256)) * 256, n_tasks)

    def range_of(self, key: Row) -> int:
        """The range of a key (the tuple of its values)."""
        return stable_hash(key) % self.n_ranges

    def task_of(self, key_range: int) -> int:
        """The place (0 … n_tasks - 1) of the task that owns a range."""
        return key_range * self.n_tasks // self.n_ranges

    def ranges_of(self, task: int) -> range:
        """The ranges that a task owns."""
        first = -(-task * self.n_ranges // self.n_tasks)
        return range(first, -(-(task + 1) * self.n_ranges // self.n_tasks))


class KeyRangeGrouping(FieldsGrouping):
    """By fields, through key ranges: for consumers whose state must survive a change of parallelism."""

    def prepare(self, context: GroupingContext, stream: StreamId, targets: Sequence[int]) -> None:
        """Deal the ranges to the targets."""
        self._ranges = KeyRanges.for_tasks(len(targets))
        super().prepare(context, stream, targets)

    def _compute(self, hashed: int) -> int:
        return self._ranges.task_of(hashed % self._ranges.n_ranges)

    def _compute_all(self, hashes: list[int]) -> list[int]:
        return list(map(self._compute, hashes))


class PartialKeyGrouping(KeyedGrouping, Spreading):
    """Two candidate tasks per key; each row goes to the one that this emitter has used less, a tie to the first.

    One that has no room is passed over while the other has some; a row for which both have none waits for either.
    A key that is very frequent is shared by two tasks; the consumer's counts must be added up downstream.
    """

    def prepare(self, context: GroupingContext, stream: StreamId, targets: Sequence[int]) -> None:
        """Start counting at zero."""
        super().prepare(context, stream, targets)
        self.used = dict.fromkeys(self.targets, 0)

    def _remembered_for(self) -> Any:
        return self.targets  # the candidates are task ids

    def _compute(self, hashed: int) -> tuple[int, int]:
        """The two candidates; distinct when there is more than one target."""
        if len(self.targets) == 1:
            return (self.targets[0], self.targets[0])
        first, second = self.candidates(hashed)
        return (self.targets[first], self.targets[second])

    def candidates(self, hashed: Any) -> tuple[Any, Any]:
        """The places of the two candidates of a hash (or of each of an array of them), of more than one target."""
        count = len(self.targets)
        first = hashed % count
        second = hashed // count % (count - 1)
        return first, second + (second >= first)

    def choose(self, values: Row) -> Sequence[int]:
        """The less used of the two candidates."""
        return (self.split((values,), None)[0][0],)

    def deal(
        self, rows: Sequence[Row], marks: Sequence[Any] | None, room: Callable[[int], int]
    ) -> tuple[list[Share], Rest | None]:
        """Shares by the less used candidate of each row's key that has room."""
        pairs = [self._lookup_one(rows)] if len(rows) == 1 else self._lookup(rows)
        return self._by_pairs(pairs, rows, marks, room)

    def deal_values(
        self, values: Sequence[Any], marks: Sequence[Any] | None, room: Callable[[int], int]
    ) -> tuple[list[Share], Rest | None]:
        """The same where each value is its row's only one."""
        return self._by_pairs(self._lookup_values(values), values, marks, room)

    def took(self, target: int, count: int) -> None:
        """A target has taken rows of the rest: it was used so often."""
        self.used[target] += count

    def _by_pairs(
        self,
        pairs: list[tuple[int, int]],
        items: Sequence[Any],
        marks: Sequence[Any] | None,
        room: Callable[[int], int],
    ) -> tuple[list[Share], Rest | None]:
        if not items:
            return [], None
        # The keys were looked up all the same: a bad one must not pass for want of a choice.
        if len(self.targets) == 1 and room(self.targets[0]) >= len(items):
            return [(self.targets[0], items, marks)], None
        used = self.used
        rooms = {target: room(target) for target in (pairs[0] if len(items) == 1 else self.targets)}
        chosen = []
        if min(rooms.values()) >= len(items):
            for first, second in pairs:
                target = first if used[first] <= used[second] else second
                used[target] += 1
                chosen.append(target)
            return share_each(chosen, items, marks), None
        left: list[int] = []
        for i, (first, second) in enumerate(pairs):
            target, other = (first, second) if used[first] <= used[second] else (second, first)
            if rooms[target] <= 0:
                target = other
            if rooms[target] > 0:
                rooms[target] -= 1
                used[target] += 1
                chosen.append(target)
            else:
                left.append(i)
        if not left:
            return share_each(chosen, items, marks), None
        rest = Rest([items[i] for i in left], _at(marks, left), [pairs[i] for i in left])
        waits = set(left)
        dealt = [i for i in range(len(items)) if i not in waits]
        return share_each(chosen, [items[i] for i in dealt], _at(marks, dealt)), rest

    def _below_mark(self, target: int) -> int:
        return ENDLESS  # on an edge on which nothing waits, rows go by use alone


def _at(marks: Sequence[Any] | None, places: Sequence[int]) -> Sequence[Any] | None:
    return None if marks is None else [marks[i] for i in places]
