"""A link carries payloads to one peer and back, over one connection after another. None is lost, repeated or reordered.

links.py has all links of a process, pending_connections.py the connections that have come in and are not yet a link's.
link.py is the shell: connector.py finds the next connection, silence.py ends one that has died. sequence.py is the pure
machine: handshake.py begins a connection, send_buffer.py keeps frames until they are acknowledged, headers.py encodes
them; parts.py cuts payloads that are too large for the line, line_rate.py says how large that is. send_queue.py holds
what waits for the link.
"""

from .headers import LinkPulse
from .link import Link
from .links import Links
from .send_queue import Gatherer, SendQueue
from .sequence import MAX_PAYLOAD_BYTES, LinkSequence, PeerStarted, SequenceLimits
from .timings import LinkTimings

__all__ = [
    "MAX_PAYLOAD_BYTES",
    "Gatherer",
    "Link",
    "LinkPulse",
    "LinkSequence",
    "LinkTimings",
    "Links",
    "PeerStarted",
    "SendQueue",
    "SequenceLimits",
]
