"""What is sent: segments inside, tuples for users.

A *segment* is the rows of one root that one task sends to another in one turn. It has one edge id, whatever its size:
that makes tracking nearly free (docs/semantics.md, section 2). A *tuple* is one row as user code sees it.

1. The items of a segment are never changed after it was sent: several segments may share one list. An item is a row; on
   a stream with one field it is the bare value (`Origin.bare`), which saves a tuple per item. A batch of columns is
   sent as `ColumnRows`, which makes its rows when they are first used (columns.py).
2. `root == 0 and lineage is None` means untracked.
3. A row usually has one (root, index) pair (`root`, `indices`), or several (`lineage`) if it has several anchors. Never
   both.

Storm: org.apache.storm.tuple.TupleImpl; the segment is ours (depart).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import repeat
from typing import TYPE_CHECKING, SupportsIndex, overload

from ..names import TICK_STREAM
from ..values import Item, Row, Timestamp, Value
from .columns import ColumnRows, RepeatedAnchor
from .identity import NO_METADATA

if TYPE_CHECKING:
    from ..fields import Fields


class Origin:
    """Where rows come from: one per (emitting task, stream), shared by all its segments."""

    __slots__ = ("bare", "component", "fields", "positions", "stream", "task")

    def __init__(self, component: str, task: int, stream: str, fields: Fields) -> None:
        self.component = component
        self.task = task
        self.stream = stream
        self.fields = fields
        self.bare = len(fields) == 1
        self.positions = {name: i for i, name in enumerate(fields)}

    def __repr__(self) -> str:
        return f"Origin({self.component!r}, task={self.task}, stream={self.stream!r})"


class Lineage:
    """The anchors of rows that have more than one.

    `edges` has the segment's edge id for each root; `pairs` has, for each row, its (root, message index) pairs.
    """

    __slots__ = ("edges", "pairs")

    def __init__(self, edges: dict[int, int], pairs: Sequence[tuple[tuple[int, int], ...]]) -> None:
        self.edges = edges
        self.pairs = pairs


class TimedItems(list[Item]):
    """Items, and the timestamp function's result for each: milliseconds, or the error that it raised."""

    __slots__ = ("times",)

    def __init__(self, items: Sequence[Item], times: Sequence[Timestamp]) -> None:
        super().__init__(items)
        self.times = times

    def __getitem__(self, at: SupportsIndex | slice) -> Item:
        found = super().__getitem__(at)
        return TimedItems(found, self.times[at]) if isinstance(at, slice) else found


class Segment:
    """Rows of one origin under one edge id.

    `indices[i]` is the index of row i's message within its tree (None when untracked or when `lineage` is given).
    `open` counts the rows that the receiver has neither acked nor failed; `done[i]` is 1 after row i was. `ingested_ms`
    is the time (wall clock) at which its rows entered the topology, if a component needs it (time_flow.py). `sent_s`:
    when it was sent to its task here, or received from another worker (of the stopwatch; 0.0: unknown). `traced`: is
    its tree sampled (metrics/spans)? A text: it is, and was emitted in this context (tasks/emit/contexts)."""

    __slots__ = (
        "done",
        "edge",
        "indices",
        "ingested_ms",
        "items",
        "lineage",
        "open",
        "origin",
        "root",
        "sent_s",
        "traced",
    )

    def __init__(
        self,
        origin: Origin,
        items: Sequence[Item],
        root: int = 0,
        edge: int = 0,
        indices: Sequence[int] | None = None,
        lineage: Lineage | None = None,
    ) -> None:
        self.origin = origin
        self.items = items
        self.root = root
        self.edge = edge
        self.indices = indices
        self.lineage = lineage
        self.open = len(items)
        self.done: bytearray | None = None
        self.ingested_ms: int | None = None
        self.sent_s = 0.0
        self.traced: bool | str = False

    @property
    def tracked(self) -> bool:
        """Is there a message whose outcome depends on its rows?"""
        return self.lineage is not None or bool(self.root)

    @property
    def rows(self) -> Sequence[Row]:
        """The values of each tuple."""
        if type(self.items) is ColumnRows:
            return list(zip(self.items.items)) if self.origin.bare else self.items.items
        return list(zip(self.items)) if self.origin.bare else self.items

    def row(self, offset: int) -> Row:
        """The values of one tuple."""
        item = self.items[offset]
        return (item,) if self.origin.bare else item

    def tuple_at(self, offset: int) -> Tuple:
        """One row as a tuple for user code."""
        return Tuple(self.row(offset), self, offset)

    @property
    def messages(self) -> Sequence[tuple[int, int]]:
        """The (root, message index) pairs of all rows, each once; empty when untracked."""
        if self.lineage is not None:
            pairs = self.lineage.pairs
            return (
                pairs.anchor
                if isinstance(pairs, RepeatedAnchor)
                else list(dict.fromkeys(pair for of in pairs for pair in of))
            )
        if not self.root or self.indices is None:
            return ()
        indices = (self.indices.anchor,) if isinstance(self.indices, RepeatedAnchor) else dict.fromkeys(self.indices)
        return list(zip(repeat(self.root), indices))

    def pairs_of(self, offset: int) -> tuple[tuple[int, int], ...]:
        """The (root, message index) pairs of one row; empty when untracked."""
        if self.lineage is not None:
            return self.lineage.pairs[offset]
        if self.root and self.indices is not None:
            return ((self.root, self.indices[offset]),)
        return ()

    def __len__(self) -> int:
        return len(self.items)

    def __repr__(self) -> str:
        return f"Segment({self.origin!r}, {len(self.items)} rows, root={self.root:#x}, edge={self.edge:#x})"


class Tuple:
    """One row with its origin, for bolts: `tup["word"]`, `tup[0]`, `tup.values`.

    Compared by identity: two tuples with equal values are different.
    """

    __slots__ = ("_offset", "_segment", "values")

    values: Row

    def __init__(self, values: Row, segment: Segment, offset: int) -> None:
        self.values = values
        self._segment = segment
        self._offset = offset

    @property
    def segment(self) -> Segment:
        """The segment that brought the tuple (for the framework)."""
        return self._segment

    @property
    def offset(self) -> int:
        """The tuple's position in its segment (for the framework)."""
        return self._offset

    @property
    def fields(self) -> Fields:
        """The names of the values."""
        return self._segment.origin.fields

    @property
    def stream(self) -> str:
        """The stream on which it was emitted."""
        return self._segment.origin.stream

    @property
    def source_component(self) -> str:
        """The component that emitted it."""
        return self._segment.origin.component

    @property
    def source_task(self) -> int:
        """The task that emitted it."""
        return self._segment.origin.task

    @property
    def is_tick(self) -> bool:
        """True for a tick tuple (`topology.tick.tuple.freq.secs`)."""
        return self._segment.origin.stream == TICK_STREAM

    @property
    def metadata(self) -> Mapping[str, str]:
        """The source's metadata of its batch: `{"chunk": "flights/7/3"}`. Empty for ordinary tuples."""
        items = self._segment.items
        return items.metadata if type(items) is ColumnRows else NO_METADATA

    def get(self, name: str, default: Value = None) -> Value:
        """The value of a field, or `default` if there is no such field."""
        fields = self._segment.origin.fields
        return self.values[fields.position(name)] if name in fields else default

    def as_dict(self) -> dict[str, Value]:
        """Field name → value."""
        return dict(zip(self._segment.origin.fields, self.values, strict=True))

    def __getitem__(self, key: str | int) -> Value:
        # Inlined: bolts do this for every tuple.
        try:
            return self.values[self._segment.origin.positions[key]]  # type: ignore[index] # an int is no key there
        except KeyError:
            if isinstance(key, str):
                return self.values[self._segment.origin.fields.position(key)]  # raises, with the existing names
            return self.values[key]

    def __contains__(self, name: object) -> bool:
        return name in self._segment.origin.fields

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Iterator[Value]:
        return iter(self.values)

    def __repr__(self) -> str:
        origin = self._segment.origin
        shown = ", ".join(f"{n}={v!r}" for n, v in zip(origin.fields, self.values, strict=False))
        if len(shown) > 500:
            shown = shown[:500] + "…"
        return f"Tuple({shown}; from {origin.component}[{origin.task}] on {origin.stream!r})"


class TupleBatch(Sequence[Tuple]):
    """All tuples of one turn, for `execute_batch`: a sequence that makes each `Tuple` only when it is used.

    `column("word")` and `rows` return the values without making any `Tuple`.
    """

    __slots__ = ("_length", "segments")

    def __init__(self, segments: Sequence[Segment]) -> None:
        self.segments = segments
        self._length = sum(len(s.items) for s in segments)

    @property
    def rows(self) -> list[Row]:
        """The values of every tuple, in order."""
        return [row for segment in self.segments for row in segment.rows]

    def column(self, name: str) -> list[Value]:
        """The values of one field, in order."""
        values: list[Value] = []
        for segment in self.segments:
            at = segment.origin.fields.position(name)
            values += segment.items if segment.origin.bare else [row[at] for row in segment.items]
        return values

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, at: int) -> Tuple: ...
    @overload
    def __getitem__(self, at: slice) -> list[Tuple]: ...
    def __getitem__(self, at: int | slice) -> Tuple | list[Tuple]:
        if isinstance(at, slice):
            return list(self)[at]
        place = at if at >= 0 else at + self._length
        if place >= 0:
            for segment in self.segments:
                if place < len(segment.items):
                    return segment.tuple_at(place)
                place -= len(segment.items)
        raise IndexError(f"tuple {at} of a batch of {self._length}")

    def __iter__(self) -> Iterator[Tuple]:
        for segment in self.segments:
            for offset, row in enumerate(segment.rows):
                yield Tuple(row, segment, offset)
