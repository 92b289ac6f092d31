"""A link carries payloads to one peer and back, over one connection after another. None is lost, repeated or reordered.

links.py has all links of a process, pending_connections.py the connections that have come in and are not yet a link's.
link.py is the shell around sequence.py, the pure machine, which numbers payloads by frame_buffers.py and frames them by
headers.py. parts.py cuts payloads that are too large for the line, line_rate.py says how large that is. send_queue.py
holds what waits for the link; timed_wakeup.py is how the shell waits.
"""

from .headers import encode_pulse
from .link import Link, LinkTimings
from .links import Links
from .send_queue import Gatherer, PayloadSource, SendQueue
from .sequence import MAX_PAYLOAD_BYTES, LinkSequence, PeerStarted, SequenceLimits

__all__ = [
    "MAX_PAYLOAD_BYTES",
    "Gatherer",
    "Link",
    "LinkSequence",
    "LinkTimings",
    "Links",
    "PayloadSource",
    "PeerStarted",
    "SendQueue",
    "SequenceLimits",
    "encode_pulse",
]
