"""Segments: tuples as bytes, in columns.

    body      msgpack array of segments
    segment   array: source task, stream, root, edge, anchors (anchors.py), rows, columns. Before the columns there may
              be the time at which the rows entered the topology (ms since 1970), the context of a sampled tree (text),
              and, if a function of the consumer gives event times: bytes, an array of a time for each row, or the error
              that it raised, as text
    columns   array of one column per field; or an extension: a RecordBatch (codec/batches.py), a column per field
    column    bytes: msgpack array of plain values; or array of one bytes: msgpack array of any values

    items ─▶ split_items ─▶ PackedItems, PackedItems … ─▶ Segment, with an edge ─▶ pack_segment ─┐
                                                          Segment, with an edge ─▶ pack_segment ─┴─▶ segments_body

1. Values that cannot be sent are found when items are packed, before there is an edge: UnsendableError names component,
   stream, field, type and the first such row.
2. A piece has about PIECE_BYTES. A single row may be larger, up to what a link carries.
3. A column of plain values takes one call of msgpack in each direction, and one check of its types: the usual case.
4. A received body is checked completely before a segment is made of it: UnreadableError. The items are then those that
   a task of the same process would get: a list of rows (Python tuples), a list of bare values, or ColumnRows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, overload

import msgpack

from ...topology.tuples import ColumnRows, Origin, Segment, TimedItems, has_identity, part_of
from ..codec import extensions as ext
from ..codec.payloads import PAYLOAD_HEADER_BYTES
from ..codec.scan import CHECKED_BYTES, MAX_DEPTH, MAX_ITEMS, scan
from ..codec.sizes import batch_bytes, largest_column
from ..codec.values import (
    WRONG,
    batch_module,
    check_items,
    pack_column,
    pack_plain,
    pack_plain_column,
    unpack_column,
    unpack_plain_column,
)
from ..errors import RemoteFailureError, UnreadableError, UnsendableError
from ..link.sequence import MAX_PAYLOAD_BYTES
from .anchors import anchors_size, pack_anchors, unpack_anchors

if TYPE_CHECKING:
    from ...topology import Anchor, Item, RecordBatch, Timestamp
    from ..codec import Received, Walked

PIECE_BYTES: Final = 48 * 1024
"""The target size of a piece; with more than one row it has at most a third more."""

MAX_PIECE_ROWS: Final = 8192

MAX_STREAM_BYTES: Final = 1024

MAX_CONTEXT_CHARS: Final = 600
"""Of the context in which a sampled tree was emitted; it is ASCII."""

MAX_ROW_BYTES: Final = MAX_PAYLOAD_BYTES - PAYLOAD_HEADER_BYTES - MAX_STREAM_BYTES - MAX_CONTEXT_CHARS - 64
"""The largest row with its anchors, alone in its segment and payload."""

WHOLE_BYTES: Final = MAX_ROW_BYTES * 7 // 8
"""How much of a chunk with identity, in Arrow's memory, is sent in one piece; with its schema it fits."""

MAX_TASK: Final = 2**31 - 1

TIME_ERROR_CHARS: Final = 200
"""How much of the text of such an error is sent."""

_TIMES: Final = frozenset({int, str})

_SEGMENT_DEPTH: Final = 5


class PackedItems(Sequence["Item"]):
    """Items of one origin as bytes. Each access decodes all rows again, so only reports should use it."""

    __slots__ = ("_count", "columns", "origin", "times")

    def __init__(self, origin: Origin, columns: bytes, count: int, times: bytes = b"") -> None:
        self.origin = origin
        self.times = times
        self.columns = columns
        self._count = count

    def unpacked(self) -> Sequence[Item]:
        """Decode the items."""
        columns, budget = _outer(self.columns)
        return _unpack_items(columns, self.origin, self._count, budget)

    @overload
    def __getitem__(self, at: int) -> Item: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Item]: ...
    def __getitem__(self, at: int | slice) -> Item | Sequence[Item]:
        return self.unpacked()[at]

    def __iter__(self) -> Iterator[Item]:
        return iter(self.unpacked())

    def __len__(self) -> int:
        return self._count


# -- to bytes ----------------------------------------------------------------------------------------------------------


def pack_items(origin: Origin, items: Sequence[Item]) -> PackedItems:
    """Encode items of a stream (bare values, rows, ColumnRows) in one piece of any size.

    UnsendableError with the `offset` of the first row that cannot be sent.
    """
    if type(items) is ColumnRows:
        return PackedItems(origin, _pack_batch(origin, items.batch), len(items))
    fields = [items] if origin.bare else list(zip(*items, strict=True)) or [()] * len(origin.fields)
    columns: list[Walked] = []
    worst: UnsendableError | None = None
    for name, values in zip(origin.fields, fields, strict=True):
        try:
            plain = pack_plain_column(values)
            columns.append((pack_column(values),) if plain is None else plain)
        except UnsendableError as error:
            if worst is None or (error.offset or 0) < (worst.offset or 0):
                worst = UnsendableError(error.reason, error.path, where=_where(origin, name), offset=error.offset)
                worst.__cause__ = error.__cause__
    if worst is not None:
        raise worst
    times = _pack_times(items.times) if type(items) is TimedItems else b""
    return PackedItems(origin, pack_plain(columns), len(items), times)


def split_items(
    origin: Origin,
    items: Sequence[Item],
    anchors: Sequence[Anchor] | None = None,
    max_bytes: int = PIECE_BYTES,
    first: int = 0,
) -> list[tuple[PackedItems, Sequence[Anchor] | None]]:
    """Items and their anchors (indices, RepeatedAnchor, pairs of a lineage, or None) in pieces of about `max_bytes`.

    Usually there is one. UnsendableError as in pack_items, and for a row that is larger than a link carries. `first`:
    how many rows precede these, for the offset in an error.
    """
    if type(items) is ColumnRows:
        return _split_batch(origin, items, anchors, max_bytes)
    count = len(items)
    if count > MAX_PIECE_ROWS:
        return _split_into(-(-count // MAX_PIECE_ROWS), origin, items, anchors, max_bytes, first)
    try:
        packed = pack_items(origin, items)
    except UnsendableError as error:
        if error.offset is not None:
            error.offset += first
        raise
    size = len(packed.columns) + len(packed.times) + anchors_size(anchors)
    if count > 1 and size > max_bytes + max_bytes // 3:
        return _split_into(-(-size // max_bytes), origin, items, anchors, max_bytes, first)
    if size > CHECKED_BYTES:
        _check_row(origin, items, anchors, size, first)
    return [(packed, anchors)]


def pack_segment(segment: Segment) -> bytes:
    """Encode a segment. Items that are not PackedItems yet are packed here: UnsendableError."""
    items, origin = segment.items, segment.origin
    if type(items) is not PackedItems:
        items = pack_items(origin, items)
    head: tuple[Walked, ...] = (
        origin.task,
        origin.stream,
        segment.root,
        segment.edge,
        pack_anchors(segment),
        len(items),
    )
    if segment.ingested_ms is not None:
        head = (*head, segment.ingested_ms)
    if type(segment.traced) is str:
        head = (*head, segment.traced)
    if items.times:
        head = (*head, items.times)
    return pack_plain((*head, 0))[:-1] + items.columns  # the last element, a byte long, is replaced


def segments_body(segments: Sequence[bytes]) -> bytes:
    """The body of a payload, from results of pack_segment."""
    count = len(segments)
    if count < 16:
        return bytes((0x90 | count,)) + b"".join(segments)
    head = b"\xdc" + count.to_bytes(2, "big") if count < 65_536 else b"\xdd" + count.to_bytes(4, "big")
    return head + b"".join(segments)


def _split_into(
    pieces: int, origin: Origin, items: Sequence[Item], anchors: Sequence[Anchor] | None, max_bytes: int, first: int
) -> list[tuple[PackedItems, Sequence[Anchor] | None]]:
    found: list[tuple[PackedItems, Sequence[Anchor] | None]] = []
    for part, part_anchors, start in _parts(pieces, items, anchors):
        found += split_items(origin, part, part_anchors, max_bytes, first + start)
    return found


def _split_batch(
    origin: Origin, rows: ColumnRows, anchors: Sequence[Anchor] | None, max_bytes: int
) -> list[tuple[PackedItems, Sequence[Anchor] | None]]:
    """As `_split`, for columns. Each piece repeats schema and dictionaries, which limits how small pieces can be."""
    if (least := batch_bytes(rows.batch)) > MAX_ROW_BYTES:
        return _split_large(origin, rows, anchors, max_bytes, least)
    packed = pack_items(origin, rows)
    size, weight = len(packed.columns), anchors_size(anchors)
    if has_identity(rows.batch):
        max_bytes = MAX_ROW_BYTES * 3 // 4  # a chunk is not split in one process, so here as little as possible
    if size + weight <= max_bytes + max_bytes // 3:
        return [(packed, anchors)]
    repeated = len(_pack_batch(origin, rows.batch.slice(0, 1)))  # Arrow writes more for no row than for one
    limit_bytes = min(max(max_bytes, 4 * repeated), MAX_ROW_BYTES)
    if len(rows) == 1 or 2 * repeated > MAX_ROW_BYTES:
        if size + weight > MAX_ROW_BYTES:
            raise _uncut(origin, rows, size, repeated)
        return [(packed, anchors)]
    if size + weight <= limit_bytes:
        return [(packed, anchors)]
    pieces = max(2, -(-(size + weight - repeated) // (limit_bytes - repeated)))
    found: list[tuple[PackedItems, Sequence[Anchor] | None]] = []
    for part, part_anchors, _ in _parts(pieces, rows, anchors):
        found += _split_batch(origin, part, part_anchors, max_bytes)  # type: ignore[arg-type] # of ColumnRows
    return found


def _split_large(
    origin: Origin, rows: ColumnRows, anchors: Sequence[Anchor] | None, max_bytes: int, size: int
) -> list[tuple[PackedItems, Sequence[Anchor] | None]]:
    """Split before packing, since the batch may have a gigabyte. `size`: a lower bound of its size."""
    repeated = batch_bytes(rows.batch.slice(0, 1))  # one row, and the dictionaries
    if repeated > MAX_ROW_BYTES:
        raise _uncut(origin, rows, size, repeated)
    found: list[tuple[PackedItems, Sequence[Anchor] | None]] = []
    for part, part_anchors, _ in _parts(-(-2 * size // MAX_ROW_BYTES), rows, anchors):
        found += _split_batch(origin, part, part_anchors, max_bytes)  # type: ignore[arg-type] # of ColumnRows
    return found


def _uncut(origin: Origin, rows: ColumnRows, size: int, repeated: int) -> UnsendableError:
    """The error for columns that cannot be split. The first row shows which field is large."""
    field, _ = largest_column(rows.batch.slice(0, 1))
    return UnsendableError(
        f"a RecordBatch of {len(rows):,} rows and {size:,} bytes cannot be split to what a link carries "
        f"({MAX_ROW_BYTES:,}); one row of it, with its schema and dictionaries, is {repeated:,}: cast dictionaries to "
        "their values, or store large values and send a reference to them",
        where=_where(origin, field or None),
        offset=0,
    )


def _parts(
    pieces: int, items: Sequence[Item], anchors: Sequence[Anchor] | None
) -> Iterator[tuple[Sequence[Item], Sequence[Anchor] | None, int]]:
    count = len(items)
    rows = max(1, -(-count // pieces))
    for start in range(0, count, rows):
        end = min(start + rows, count)
        if type(items) is ColumnRows:
            part: Sequence[Item] = ColumnRows(
                part_of(items.batch.slice(start, end - start), "cut", start, end), items.bare
            )
        else:
            part = items[start:end]
        yield part, None if anchors is None else anchors[start:end], start


def _check_row(origin: Origin, items: Sequence[Item], anchors: Sequence[Anchor] | None, size: int, first: int) -> None:
    if size > MAX_ROW_BYTES:
        columns = [items] if origin.bare else [(value,) for value in items[0]]
        sizes = [len(pack_column(values)) for values in columns]
        largest = max(sizes)
        where = _where(origin, origin.fields[sizes.index(largest)])
        if anchors_size(anchors) > largest:
            where, largest = f"{_where(origin, None)}, its anchors", anchors_size(anchors)
        raise UnsendableError(
            f"a row is too large to be sent to another process: {largest:,} bytes in this place, and a row has at most "
            f"{MAX_ROW_BYTES:,}; send it in parts, or store it and send a reference",
            where=where,
            offset=first,
        )
    if len(items) == 1:
        for name, value in zip(origin.fields, items if origin.bare else items[0], strict=True):
            try:
                check_items(pack_column((value,)), MAX_DEPTH + 1)
            except UnsendableError as error:
                raise UnsendableError(error.reason, where=_where(origin, name), offset=first) from error


def _pack_batch(origin: Origin, batch: RecordBatch) -> bytes:
    try:
        return pack_plain(msgpack.ExtType(ext.RECORD_BATCH, batch_module().encode_batch(batch)))
    except ext.UnfitError as error:
        raise UnsendableError(str(error), where=_where(origin, None), offset=0) from error


def _pack_times(times: Sequence[Timestamp]) -> bytes:
    return pack_plain([at if type(at) is int else _in_short(at) for at in times])


def _in_short(error: object) -> str:
    text = f"{type(error).__name__}: {error}"[:TIME_ERROR_CHARS]
    return text.encode("utf-8", "replace").decode()


def _where(origin: Origin, field: str | None) -> str:
    """The component, stream and field, for an error."""
    place = f"{origin.component!r} emits on stream {origin.stream!r}"
    return place if field is None else f"{place}, field {field!r}"


# -- from bytes --------------------------------------------------------------------------------------------------------


def unpack_segments(body: bytes | memoryview, origin_of: Callable[[int, str], Origin]) -> list[Segment]:
    """The segments of a body. `origin_of(task, stream)` raises LookupError for an unknown origin.

    UnreadableError if any part of the body is wrong.
    """
    found, budget = _outer(body)
    if type(found) is not tuple:
        raise UnreadableError("segments that are not an array")
    return [_segment(parts, origin_of, budget) for parts in found]


class _Budget:
    """How many values the rest of a body may have, without plain columns; shared by all its columns."""

    __slots__ = ("items",)

    def __init__(self, items: int) -> None:
        self.items = items


def _segment(parts: Received, origin_of: Callable[[int, str], Origin], budget: _Budget) -> Segment:
    if type(parts) is not tuple or not 7 <= len(parts) <= 10:
        raise UnreadableError("a segment has seven to ten parts")
    task, stream, root, edge, anchors, count = parts[:6]
    columns, more = parts[-1], list(parts[6:-1])
    times = more.pop() if more and type(more[-1]) is bytes else None
    context = more.pop() if more and type(more[-1]) is str else ""
    ingested_ms = more.pop() if more else None
    if more or (ingested_ms is not None and type(ingested_ms) is not int):
        raise UnreadableError("a segment whose entry time is not a number")
    if len(context) > MAX_CONTEXT_CHARS:
        raise UnreadableError(f"a segment with a context of {len(context)} characters")
    if type(task) is not int or not 0 <= task <= MAX_TASK or type(stream) is not str:
        raise UnreadableError("a segment begins with a task and a stream")
    if type(root) is not int or type(edge) is not int or type(count) is not int or count < 1:
        raise UnreadableError("a segment has numbers for root and edge, and one row or more")
    try:
        origin = origin_of(task, stream)
    except LookupError as error:
        raise UnreadableError(f"a segment of task {task} on {stream!r:.80}, an unknown origin") from error
    items = _unpack_items(columns, origin, count, budget)
    if times is not None:
        items = TimedItems(items, _unpack_times(times, count))
    indices, lineage = unpack_anchors(anchors, root, edge, count)
    segment = Segment(origin, items, root, edge, indices, lineage)
    segment.ingested_ms, segment.traced = ingested_ms, context or False
    return segment


def _unpack_times(packed: bytes, count: int) -> list[Timestamp]:
    if count > MAX_PIECE_ROWS:
        raise UnreadableError(f"times of {count} rows")
    found = unpack_plain_column(packed, count)
    if not _TIMES.issuperset(map(type, found)):
        raise UnreadableError("event times that are neither numbers nor errors")
    return [at if type(at) is int else _error(at) for at in found]


def _error(text: str) -> RemoteFailureError:
    kind, _, message = text.partition(": ")
    return RemoteFailureError(kind, message)


def _unpack_items(columns: Received, origin: Origin, count: int, budget: _Budget) -> Sequence[Item]:
    if type(columns) is msgpack.ExtType:
        return _unpack_batch(columns, origin, count)
    if type(columns) is not tuple or len(columns) != len(origin.fields):
        raise UnreadableError(f"a segment on {origin.stream!r} without its {len(origin.fields)} columns")
    if not columns:
        if count > MAX_PIECE_ROWS:
            raise UnreadableError(f"a segment of {count} rows")
        return [()] * count
    found = [_unpack_column(column, count, budget) for column in columns]
    return list(found[0]) if origin.bare else list(zip(*found, strict=True))


def _unpack_column(column: Received, count: int, budget: _Budget) -> Sequence[Item]:
    if type(column) is bytes and count <= MAX_PIECE_ROWS:
        return unpack_plain_column(column, count)
    if type(column) is tuple and len(column) == 1 and type(column[0]) is bytes:
        values, items = unpack_column(column[0], budget.items)
        budget.items -= items
        if len(values) == count:
            return values
    raise UnreadableError(f"a column that is not {count} values")


def _unpack_batch(packed: msgpack.ExtType, origin: Origin, count: int) -> ColumnRows:
    try:
        if packed.code != ext.RECORD_BATCH:
            raise UnreadableError(f"columns that are extension type {packed.code}")
        batch = batch_module().decode_batch(packed.data)
    except UnreadableError:
        raise
    except WRONG as error:
        raise UnreadableError(f"a RecordBatch of {len(packed.data)} bytes: {error!r:.200}") from error
    if batch.num_rows != count or batch.schema.names != list(origin.fields):
        raise UnreadableError(f"a RecordBatch on {origin.stream!r} with unexpected rows or columns")
    return ColumnRows(batch, origin.bare)


def _outer(body: bytes | memoryview) -> tuple[Received, _Budget]:
    budget = _Budget(MAX_ITEMS - scan(body, _SEGMENT_DEPTH))
    try:
        return msgpack.unpackb(body, use_list=False), budget
    except WRONG as error:
        raise UnreadableError(f"segments of {len(body)} bytes cannot be read: {error!r:.200}") from error
