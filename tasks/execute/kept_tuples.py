"""KeptTuples: the tuples that windows keep, as values for a snapshot, and back.

    tuple ─ pack ─► (component, task, stream, values) ─ unpack ─► a tuple with its fields, of a segment of its own

A tuple that was restored is settled: its message was part of the snapshot, so that nothing awaits its ack.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ...topology import Origin, Segment
from ...windows import WindowStateError

if TYPE_CHECKING:
    from ...topology import Fields, Tuple, Value


class KeptTuples:
    """The tuples of one task. `fields`: (component, stream) → the fields of its rows."""

    __slots__ = ("_fields", "_origins")

    def __init__(self, fields: Mapping[tuple[str, str], Fields]) -> None:
        self._fields = fields
        self._origins: dict[tuple[str, int, str], Origin] = {}

    def pack(self, tup: Tuple) -> Value:
        """A value that can be saved if the values of the tuple can."""
        origin = tup.segment.origin
        return origin.component, origin.task, origin.stream, tuple(tup.values)

    def unpack(self, packed: Value) -> Tuple:
        """The reverse of pack. WindowStateError if the topology has no such stream any more."""
        component, task, stream, values = packed
        origin = self._origins.get((component, task, stream))
        if origin is None:
            fields = self._fields.get((component, stream))
            if fields is None or type(task) is not int:
                raise WindowStateError(f"rows of {component!r}, stream {stream!r}, which the topology does not have")
            origin = self._origins[component, task, stream] = Origin(component, task, stream, fields)
        if type(values) is not tuple or len(values) != len(origin.fields):
            raise WindowStateError(f"a row of {component!r}, stream {stream!r}, whose fields are {list(origin.fields)}")
        return Segment(origin, [values[0] if origin.bare else values]).tuple_at(0)


def packed_row(packed: Value) -> tuple[str, str, Sequence[Value]]:
    """The component, the stream and the values of a packed tuple."""
    component, _, stream, values = packed
    return component, stream, values
