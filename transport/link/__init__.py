"""A link: payloads to one peer and from it, over one connection after another. Nothing is lost, repeated or reordered.

links.py has all links of a process, door.py the connections that have come in and are not yet a link's. link.py is the
shell around sequence.py, the pure machine, which numbers payloads by sliding.py and frames them by headers.py.
parts.py cuts payloads that are too large for the line, line_rate.py says how large that is. courier.py holds what
waits for the link; alarm.py is how the shell waits.
"""

from .courier import Courier, Gatherer, Source
from .headers import encode_pulse
from .link import Link, LinkTimings
from .links import Links
from .sequence import MAX_PAYLOAD_BYTES, LinkSequence, PeerStarted, SequenceLimits

__all__ = [
    "MAX_PAYLOAD_BYTES",
    "Courier",
    "Gatherer",
    "Link",
    "LinkSequence",
    "LinkTimings",
    "Links",
    "PeerStarted",
    "SequenceLimits",
    "Source",
    "encode_pulse",
]
