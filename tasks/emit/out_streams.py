"""Out streams: the declared streams of a task, and for each of their consumers the way to its tasks.

Items are rows as they are sent: on a stream of one field, the value.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from ...topology import (
    Anchor,
    ColumnRows,
    EmitError,
    Grouping,
    Item,
    Origin,
    RepeatedAnchor,
    Rest,
    Row,
    Share,
    Spreading,
    Unchecked,
    column_rows,
    split_columns,
)

if TYPE_CHECKING:
    from ...topology import RecordBatch
    from .outbox import Outbox, Outlet, Outlets
    from .waiting import Group

Deal = Callable[
    [Sequence[Item], Sequence[Anchor] | None, Callable[[int], int]],
    tuple[list[Share], Rest | None],
]
Split = Callable[[Sequence[Item], Sequence[Anchor] | None], list[Share]]


class Route:
    """One consumer of a stream: how rows are split over its tasks, and the outlets to them.

    `group`: for rows that several of the tasks may take and that wait; without it each row has one target. `only`: the
    single task of the consumer; then rows are not split. `spreading`: the grouping, if it leaves a choice. `rows`: so
    many were sent on this way.
    """

    __slots__ = (
        "consumer",
        "deal",
        "free_rows",
        "group",
        "grouping",
        "only",
        "outlets",
        "place",
        "rows",
        "split",
        "spreading",
    )

    def __init__(
        self, consumer: str, grouping: Grouping, bare: bool, outlets: Outlets, group: Group | None = None
    ) -> None:
        self.consumer = consumer
        self.rows = 0
        self.grouping = grouping
        self.split: Split = grouping.split_values if bare else grouping.split
        self.outlets = outlets
        self.free_rows = outlets.free_rows  # how many rows a task takes now
        self.group = group
        self.deal: Deal
        self.place: Callable[[Callable[[int], int]], int | None]
        self.only = grouping.only_target()
        self.spreading: Spreading
        if isinstance(grouping, Spreading):
            self.spreading = grouping
            self.deal = grouping.deal_values if bare else grouping.deal
            self.place = grouping.place

    def split_columns(self, rows: ColumnRows, anchors: RepeatedAnchor | None) -> list[Share]:
        """Split a batch of columns (ColumnRows), whose rows have one anchor (RepeatedAnchor)."""
        shares = split_columns(self.grouping, rows)
        return [
            (to, share, None if anchors is None else RepeatedAnchor(anchors.anchor, len(share))) for to, share in shares
        ]


class Direct:
    """The targets of a direct stream. `receivers`: task → is its edge inside a cycle? (Shared by all emitters.)

    `rows`: so many were sent to each.
    """

    __slots__ = ("_outbox", "receivers", "rows")

    def __init__(self, receivers: Mapping[int, bool], outbox: Outbox) -> None:
        self.receivers = receivers
        self.rows = defaultdict[int, int](int)
        self._outbox = outbox

    def outlet(self, target: int) -> Outlet:
        """The outlet to one of the receivers."""
        return self._outbox.edge(never_waits=self.receivers[target])[target]


class OutStream:
    """A declared stream of this task. `direct`: its receivers, if it is a direct stream. `emitted`: rows, so far."""

    __slots__ = ("arity", "bare", "direct", "emitted", "origin", "routes")

    def __init__(self, origin: Origin, routes: Sequence[Route], direct: Direct | None = None) -> None:
        self.origin = origin
        self.arity = len(origin.fields)
        self.bare = origin.bare
        self.direct = direct
        self.routes = tuple(routes)
        self.emitted = 0

    @property
    def consumed(self) -> bool:
        """Is there a consumer?"""
        return bool(self.routes or (self.direct is not None and self.direct.receivers))

    def outlet(self, target: int) -> Outlet:
        """The outlet to a receiver of this direct stream (see OutStreams.row)."""
        return self.direct.outlet(target)  # type: ignore[union-attr] # OutStreams.row has checked it

    def edges(self, component_of: Callable[[int], str]) -> Iterator[tuple[str, str, int]]:
        """(stream, consumer, rows sent to it); a consumer may come several times."""
        stream = self.origin.stream
        for route in self.routes:
            yield stream, route.consumer, route.rows
        for target, rows in () if self.direct is None else self.direct.rows.items():
            yield stream, component_of(target), rows

    def item(self, row: Row) -> Item:
        """A row as it is sent on this stream."""
        return row[0] if self.bare else row

    def row(self, item: Item) -> Row:
        """The row of an item."""
        return (item,) if self.bare else item


class OutStreams(dict[str, OutStream]):
    """The declared streams of one task, by name: they check what it emits. `name`: the task, for error messages."""

    __slots__ = ("name",)

    def __init__(self, name: str, streams: Mapping[str, OutStream]) -> None:
        super().__init__(streams)
        self.name = name

    def row(self, values: Unchecked, stream: str, *, direct_to: int | None = None) -> tuple[OutStream, Row]:
        """The declared stream and the row, or an EmitError that says what to do."""
        out = self.declared(stream)
        if isinstance(values, str | bytes) or not isinstance(values, tuple | list):
            raise EmitError(
                f"{self.name} emits {values!r:.200} on stream {stream!r}: a tuple or list of values is needed; "
                f"for one value write emit((value,))"
            )
        row = values if type(values) is tuple else tuple(values)
        if len(row) != out.arity:
            raise EmitError(
                f"{self.name} emits {len(row)} values on stream {stream!r}, which has {out.arity} fields "
                f"({', '.join(out.origin.fields)}): {row!r:.200}"
            )
        self._check_direct(out, stream, direct_to)
        return out, row

    def columns(self, batch: RecordBatch, stream: str, *, direct_to: int | None = None) -> tuple[OutStream, ColumnRows]:
        """The same for a RecordBatch."""
        out = self.declared(stream)
        self._check_direct(out, stream, direct_to)
        return out, column_rows(batch, out.origin, self.name)

    def declared(self, stream: str) -> OutStream:
        """A stream by its name, or an EmitError that says what to do."""
        out = self.get(stream)
        if out is None:
            declared = ", ".join(s for s in self if not s.startswith("__")) or "none"
            raise EmitError(f"{self.name} emits on stream {stream!r}, which it does not declare (declared: {declared})")
        return out

    def _check_direct(self, out: OutStream, stream: str, direct_to: int | None) -> None:
        if direct_to is None:
            if out.direct is not None:
                raise EmitError(f"stream {stream!r} of {self.name} is direct: use emit_direct(task, values)")
        elif out.direct is None:
            raise EmitError(f"stream {stream!r} of {self.name} is not direct: declare it with direct(...) or use emit")
        elif direct_to not in out.direct.receivers:
            known = ", ".join(map(str, sorted(out.direct.receivers))) or "none"
            raise EmitError(
                f"{self.name} emits to task {direct_to}, which does not take stream {stream!r} (receivers: {known})"
            )

    def not_direct(self, stream: str) -> OutStream:
        """A declared stream that is not direct, or an EmitError that says what to do."""
        out = self.declared(stream)
        self._check_direct(out, stream, None)
        return out
