"""Groupings: the rule that picks the target tasks of a row. The base class and the groupings without memory.

One grouping object serves one emitting task and one subscription. It is asked for whole batches, because that is what
travels:

    rows r0 r1 r2 r3 ──split──▶ (task 4, [r0, r3]), (task 7, [r1, r2])

1. `split` returns at most one share per target; the rows of a share are in the order in which they were given.
2. Every row goes to the targets that `choose` would give for it: nothing is lost, nothing doubled.
3. `split` never changes its input and may hand it on: the caller must not change it either.
4. A grouping uses no clock, no global random source and no Python `hash` that differs between processes: with the same
   `rng` it does the same again.

Storm: CustomStreamGrouping, GrouperFactory. Whole batches are ours (depart), and a target that is not one of the
consumer's is an error here; Storm sends to it (depart).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, overload

from ..errors import EmitError
from ..fields import Fields
from ..streams import StreamId
from ..tuples import Row

if TYPE_CHECKING:
    import random

Share = tuple[int, Sequence[Any], Sequence[Any] | None]
"""A target task, its rows (or bare values), and the marks that belong to them (None: untracked)."""

ROUTING_CACHE_KEYS = 65_536

ENDLESS: Final = 1 << 60
"""Room for any number of rows."""


def never(task: int) -> bool:
    """No target is ever over its high mark."""
    return False


def unmeasured(target: int) -> float:
    """No target has measured how long a row takes it."""
    return 0.0


@dataclass(slots=True)
class GroupingContext:
    """What a grouping can know: who emits to whom, and where and how full the targets are.

    `is_high(task)` says whether that target is over its high mark, `row_s(task)` how many seconds it works for a row
    lately (0.0: it has measured nothing). `local` are targets in the same worker, `same_node`
    targets on the same node. `cache_keys` is how many keys a grouping by fields remembers;
    `shared` is where groupings of several tasks in one process may keep what they can share.
    """

    component: str
    task_id: int
    consumer: str
    fields: Fields
    rng: random.Random
    is_high: Callable[[int], bool] = never
    local: frozenset[int] = frozenset()
    same_node: frozenset[int] = frozenset()
    cache_keys: int = ROUTING_CACHE_KEYS
    shared: dict[Any, Any] = field(default_factory=dict)
    row_s: Callable[[int], float] = unmeasured


class DealtMarks:
    """The marks of a batch that was dealt to targets, dealt only when somebody asks for them.

    A bolt that emits nothing and fails nothing never does, and dealing marks costs as much as dealing rows.
    """

    __slots__ = ("_dealt", "_marks", "_n_targets", "_places")

    def __init__(self, marks: Sequence[Any], places: Sequence[int], n_targets: int) -> None:
        self._marks = marks
        self._places = places
        self._n_targets = n_targets
        self._dealt: list[list[Any]] | None = None

    def share(self, place: int) -> Sequence[Any]:
        """The marks of one target's rows, in their order."""
        return _MarksShare(self, place)

    def of(self, place: int) -> list[Any]:
        """The same as a list; deals all of them the first time."""
        if self._dealt is None:
            dealt: list[list[Any]] = [[] for _ in range(self._n_targets)]
            for mark, at in zip(self._marks, self._places, strict=True):
                dealt[at].append(mark)
            self._dealt = dealt
            self._marks = self._places = ()
        return self._dealt[place]


class _MarksShare(Sequence[Any]):
    """One target's marks, or a part of them: a share that is too heavy for a mailbox is cut, and that asks for none."""

    __slots__ = ("_dealt", "_part", "_place")

    def __init__(self, dealt: DealtMarks, place: int, part: slice | None = None) -> None:
        self._dealt = dealt
        self._place = place
        self._part = part

    def _own(self) -> list[Any]:
        marks = self._dealt.of(self._place)
        return marks if self._part is None else marks[self._part]

    @overload
    def __getitem__(self, at: int) -> Any: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Any]: ...
    def __getitem__(self, at: int | slice) -> Any:
        if isinstance(at, slice) and self._part is None:
            return _MarksShare(self._dealt, self._place, at)
        return self._own()[at]

    def __len__(self) -> int:
        return len(self._own())

    def __iter__(self) -> Iterator[Any]:
        return iter(self._own())

    def __eq__(self, other: object) -> bool:
        return self._own() == (list(other) if isinstance(other, Sequence) else other)

    def __hash__(self) -> int:
        raise TypeError("marks are a sequence that can be compared, not hashed")

    def __repr__(self) -> str:
        return repr(self._own())


class Grouping(ABC):
    """Picks target tasks. Your own: define `choose`, and `choose_batch` or `split` if whole batches can be faster.

    `context`, `stream` and `targets` are there after `prepare`. An instance given to `custom_grouping` is copied for
    each emitting task.
    """

    context: GroupingContext
    stream: StreamId
    targets: tuple[int, ...]

    def prepare(self, context: GroupingContext, stream: StreamId, targets: Sequence[int]) -> None:
        """Called once, before anything else. `targets` are the task ids of the consumer."""
        self.context = context
        self.stream = stream
        in_order = tuple(sorted(targets))
        self.targets = context.shared.setdefault((Grouping, in_order), in_order)  # one for a thousand emitters

    @abstractmethod
    def choose(self, values: Row) -> Sequence[int]:
        """The target tasks of one row."""

    def choose_batch(self, rows: Sequence[Row]) -> Sequence[Sequence[int]]:
        """The target tasks of each row."""
        return [self.choose(row) for row in rows]

    def split(self, rows: Sequence[Row], marks: Sequence[Any] | None) -> list[Share]:
        """One share for each target that gets rows. `marks` is parallel to `rows`."""
        return share_out(self.choose_batch(rows), rows, marks)

    def split_values(self, rows: Sequence[Any], marks: Sequence[Any] | None) -> list[Share]:
        """The same for a stream of one field: its tuples travel as bare values, and the shares hold bare values."""
        shares = self.split(list(zip(rows)), marks)
        return [(target, [row[0] for row in share], share_marks) for target, share, share_marks in shares]


def share_out(chosen: Iterable[Sequence[int]], rows: Sequence[Row], marks: Sequence[Any] | None) -> list[Share]:
    """Shares from the targets of each row."""
    shares: dict[int, tuple[list[Row], list[Any]]] = {}
    for i, targets in enumerate(chosen):
        for target in targets:
            share = shares.get(target)
            if share is None:
                share = shares[target] = ([], [])
            share[0].append(rows[i])
            if marks is not None:
                share[1].append(marks[i])
    return [(target, share[0], None if marks is None else share[1]) for target, share in shares.items()]


def share_each(chosen: Iterable[int], rows: Sequence[Row], marks: Sequence[Any] | None) -> list[Share]:
    """Shares from the one target of each row."""
    shares: dict[int, list[Row]] = {}
    if marks is None:
        for target, row in zip(chosen, rows):  # noqa: B905 - strict costs a tenth here
            if target in shares:
                shares[target].append(row)
            else:
                shares[target] = [row]
        return [(target, share, None) for target, share in shares.items()]
    share_marks: dict[int, list[Any]] = {}
    for target, row, mark in zip(chosen, rows, marks):  # noqa: B905
        if target in shares:
            shares[target].append(row)
            share_marks[target].append(mark)
        else:
            shares[target] = [row]
            share_marks[target] = [mark]
    return [(target, share, share_marks[target]) for target, share in shares.items()]


class Rest(NamedTuple):
    """Rows that no target has room for now. `choices`: the targets that may take each of them; None: any target."""

    rows: Sequence[Any]
    marks: Sequence[Any] | None
    choices: Sequence[tuple[int, ...]] | None = None


class Spreading(Grouping):
    """A grouping that leaves a choice: what a full target cannot take may go to another one.

    1. `deal` gives a target no more rows than it has room for, and what no target takes is the rest: with `choices`
       rows here and there, without them the last ones. So each target gets its rows in the order in which they came.
    2. The emitter keeps the rest (see `tasks.waiting`); whichever target of the choice has room first takes of it.
    """

    @abstractmethod
    def deal(
        self, rows: Sequence[Any], marks: Sequence[Any] | None, room: Callable[[int], int]
    ) -> tuple[list[Share], Rest | None]:
        """One share for each target that gets rows, and the rest. `room(target)`: how many rows it takes now."""

    def deal_values(
        self, values: Sequence[Any], marks: Sequence[Any] | None, room: Callable[[int], int]
    ) -> tuple[list[Share], Rest | None]:
        """The same for a stream of one field, whose tuples travel as bare values."""
        return self.deal(values, marks, room)  # most of them look into no row

    def place(self, room: Callable[[int], int]) -> int | None:
        """The target of a batch of columns, which is not split; None: there is no room."""
        shares, _ = self.deal([()], None, room)
        return shares[0][0] if shares else None

    def took(self, target: int, count: int) -> None:
        """A target has taken rows of the rest."""

    def split(self, rows: Sequence[Any], marks: Sequence[Any] | None) -> list[Share]:
        """Shares for an edge on which nothing waits: to those below their high mark if there are any, else to all."""
        shares, rest = self.deal(rows, marks, self._below_mark)
        return shares if rest is None else self.deal(rows, marks, _endless)[0]

    def split_values(self, rows: Sequence[Any], marks: Sequence[Any] | None) -> list[Share]:
        """The same for a stream of one field."""
        shares, rest = self.deal_values(rows, marks, self._below_mark)
        return shares if rest is None else self.deal_values(rows, marks, _endless)[0]

    def _below_mark(self, target: int) -> int:
        return 0 if self.context.is_high(target) else ENDLESS


def _endless(target: int) -> int:
    return ENDLESS


class GlobalGrouping(Grouping):
    """Everything to the task with the lowest id."""

    def prepare(self, context: GroupingContext, stream: StreamId, targets: Sequence[int]) -> None:
        """Find the lowest id."""
        super().prepare(context, stream, targets)
        self._lowest = self.targets[0]

    def choose(self, values: Row) -> Sequence[int]:
        """The lowest task id."""
        return (self._lowest,)

    def split(self, rows: Sequence[Any], marks: Sequence[Any] | None) -> list[Share]:
        """All rows, as they came, to the lowest task id."""
        return [(self._lowest, rows, marks)] if rows else []

    split_values = split


class AllGrouping(Grouping):
    """Everything to every task."""

    def choose(self, values: Row) -> Sequence[int]:
        """Every target."""
        return self.targets

    def split(self, rows: Sequence[Any], marks: Sequence[Any] | None) -> list[Share]:
        """The same rows for every target."""
        return [(target, rows, marks) for target in self.targets] if rows else []

    split_values = split


class DirectGrouping(Grouping):
    """Only the emitter picks, with `emit_direct`.

    A plain emit on a direct stream is refused, whoever reads it (Storm: where a consumer reads it directly).
    """

    def choose(self, values: Row) -> Sequence[int]:
        """Refused: EmitError."""
        raise self._refusal()

    def split(self, rows: Sequence[Row], marks: Sequence[Any] | None) -> list[Share]:
        """Refused: EmitError."""
        raise self._refusal()

    def _refusal(self) -> EmitError:
        return EmitError(
            f"{self.stream.component!r} emitted on its direct stream {self.stream.stream!r} without naming a task; "
            f"use emit_direct(task, values) with a task of context.tasks({self.context.consumer!r})"
        )


class CustomGrouping(Grouping):
    """A user's grouping, with its answers checked: every target is a task of the consumer."""

    def __init__(self, inner: Grouping) -> None:
        self._inner = inner

    def prepare(self, context: GroupingContext, stream: StreamId, targets: Sequence[int]) -> None:
        """Prepare the user's grouping."""
        super().prepare(context, stream, targets)
        self._allowed = frozenset(targets)
        self._splits_itself = type(self._inner).split is not Grouping.split
        self._inner.prepare(context, stream, self.targets)

    def choose(self, values: Row) -> Sequence[int]:
        """What the user's grouping chooses; EmitError for a target that is not one of the consumer's."""
        return self._checked(self._inner.choose(values), None)

    def choose_batch(self, rows: Sequence[Row]) -> Sequence[Sequence[int]]:
        """What the user's grouping chooses for each row."""
        chosen = self._inner.choose_batch(rows)
        if len(chosen) != len(rows):
            raise EmitError(f"{self._name()}: choose_batch gave {len(chosen)} answers for {len(rows)} rows")
        return [self._checked(targets, i) for i, targets in enumerate(chosen)]

    def split(self, rows: Sequence[Row], marks: Sequence[Any] | None) -> list[Share]:
        """The shares that the user's grouping makes."""
        if not self._splits_itself:
            return share_out(self.choose_batch(rows), rows, marks)
        # An empty share would be a segment that nobody ever finishes.
        shares = [share for share in self._inner.split(rows, marks) if share[1]]
        chosen = self._checked([share[0] for share in shares], None)
        if len(set(chosen)) < len(shares):
            raise EmitError(f"{self._name()}: split must give one share for each task, not several")
        for _, given, given_marks in shares:
            if (given_marks is None) != (marks is None) or (given_marks is not None and len(given) != len(given_marks)):
                raise EmitError(f"{self._name()}: split must give one mark for each row, or None if it was given None")
        return shares

    def _checked(self, targets: Sequence[int], row: int | None) -> Sequence[int]:
        if not isinstance(targets, list | tuple):
            error = EmitError(f"{self._name()}: choose must return a list or tuple of task ids, not {targets!r}")
        else:
            for target in targets:
                if target not in self._allowed:
                    error = EmitError(
                        f"{self._name()}: chose task {target!r}; the tasks of {self.context.consumer!r} are "
                        f"{', '.join(map(str, self.targets))}"
                    )
                    break
            else:
                return targets
        error.row = row
        raise error

    def _name(self) -> str:
        return (
            f"grouping {type(self._inner).__name__} of {self.context.consumer!r} on stream "
            f"{self.stream.stream!r} of {self.stream.component!r}"
        )
