"""Checking: in one process, rows are packed and unpacked as between workers, without a network.

`topology.testing.always.try.serialize` (Storm's key), on in the testing kit: a value that cannot be sent to another
worker fails its message and is reported with its field, in the first test. The receiver gets a copy, as it would there.
Batches of columns are not checked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...topology import ColumnRows
from ...transport import UnsendableError, pack_items
from .emit_buffer import OutStream
from .emitter import Emitter
from .stamping import StampingEmitter

if TYPE_CHECKING:
    _Base = Emitter
else:
    _Base = object


class _Checking(_Base):
    __slots__ = ()

    def _seal_rows(
        self, root: int, stream: OutStream, target: int | None, items: Sequence[Any], marks: Sequence[Any] | None
    ) -> None:
        if items and type(items) is not ColumnRows:
            items, marks = self._as_sent(root, stream, items, marks)
            if not items:
                return
        super()._seal_rows(root, stream, target, items, marks)

    def _as_sent(
        self, root: int, stream: OutStream, items: Sequence[Any], marks: Sequence[Any] | None
    ) -> tuple[Sequence[Any], Sequence[Any] | None]:
        """The rows as another worker would receive them. Rows that cannot be sent are refused: their messages fail."""
        items = list(items)
        marks = None if marks is None else list(marks)
        while items:
            try:
                return list(pack_items(stream.origin, items).unpacked()), marks
            except UnsendableError as error:
                at = error.offset or 0
                mark = None if marks is None else marks.pop(at)
                self.refuse(error, stream.row(items.pop(at)), stream.origin.stream, mark, root)
        return items, marks


class CheckingEmitter(_Checking, Emitter):
    """An emitter that checks."""

    __slots__ = ()


class CheckingStampingEmitter(_Checking, StampingEmitter):
    """An emitter that checks and stamps."""

    __slots__ = ()


def emitter_class(*, stamped: bool, checked: bool) -> type[Emitter]:
    """The class of a task's emitter."""
    if checked:
        return CheckingStampingEmitter if stamped else CheckingEmitter
    return StampingEmitter if stamped else Emitter
