"""Tuples between workers.

exchange.py is what one worker has with all others, trade.py what it has with one of them. A task elsewhere is a
far_inbox.py here: it sends while it has credit (credit.py, pure), as segments.py, whose rows carry marks.py. What goes
to one peer waits in a courier until the link takes it; what has come waits in arrivals.py until the mailbox takes it.
"""

from .arrivals import Arrivals
from .credit import Allowance, Quota, shares
from .exchange import Exchange, PostOffice
from .far_inbox import FarInbox
from .segments import (
    PIECE_BYTES,
    WHOLE_BYTES,
    PackedItems,
    pack_items,
    pack_segment,
    segments_body,
    split_items,
    unpack_segments,
)
from .trade import FarTask, MessageCodec, joined

__all__ = [
    "PIECE_BYTES",
    "WHOLE_BYTES",
    "Allowance",
    "Arrivals",
    "Exchange",
    "FarInbox",
    "FarTask",
    "MessageCodec",
    "PackedItems",
    "PostOffice",
    "Quota",
    "joined",
    "pack_items",
    "pack_segment",
    "segments_body",
    "shares",
    "split_items",
    "unpack_segments",
]
