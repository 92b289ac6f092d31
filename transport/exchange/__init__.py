"""Tuples between workers.

exchange.py is a worker's traffic with all others, peer_channel.py the traffic with one of them. A remote task has a
remote_mailbox.py here, which sends while it has credit (credit.py, pure). Rows are encoded by segments.py, with
anchors.py for their messages. What goes to one peer waits in a send queue until the link takes it; what has arrived
waits in receive_buffer.py until the mailbox takes it.
"""

from .credit import ReceiverCredit, SenderCredit, split_capacity
from .exchange import Exchange, PeerRouter
from .peer_channel import RemoteTask
from .receive_buffer import ReceiveBuffer
from .remote_mailbox import RemoteMailbox
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

__all__ = [
    "PIECE_BYTES",
    "WHOLE_BYTES",
    "Exchange",
    "PackedItems",
    "PeerRouter",
    "ReceiveBuffer",
    "ReceiverCredit",
    "RemoteMailbox",
    "RemoteTask",
    "SenderCredit",
    "pack_items",
    "pack_segment",
    "segments_body",
    "split_capacity",
    "split_items",
    "unpack_segments",
]
