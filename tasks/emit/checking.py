"""Checking: in one process, rows are packed and unpacked as between workers, without a network.

`topology.testing.always.try.serialize` (Storm's key), on in the testing kit: a value that cannot be sent to another
worker fails its message and is reported with its field, in the first test. The receiver gets a copy, as it would there.
Batches of columns are not checked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...transport import UnsendableError, pack_items

if TYPE_CHECKING:
    from ...topology import Anchor, Item
    from .emitter import Emitter
    from .out_streams import OutStream


def check_rows(emitter: Emitter) -> None:
    """Check all rows that this emitter sends."""

    def as_sent(
        root: int, stream: OutStream, items: Sequence[Item], anchors: Sequence[Anchor] | None
    ) -> tuple[Sequence[Item], Sequence[Anchor] | None]:
        """The rows as another worker would receive them. Rows that cannot be sent are refused: their messages fail."""
        items = list(items)
        anchors = None if anchors is None else list(anchors)
        while items:
            try:
                return list(pack_items(stream.origin, items).unpacked()), anchors
            except UnsendableError as error:
                at = error.offset or 0
                anchor = None if anchors is None else anchors.pop(at)
                emitter.refuse(error, stream.row(items.pop(at)), stream.origin.stream, anchor, root)
        return items, anchors

    emitter.check = as_sent
