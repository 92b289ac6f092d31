"""Actors of other processes.

node.py is this process as others reach it. ref.py is the address of an actor elsewhere: messages go through a
channel.py, which has a flow_control.py, to the peer.py of that process, and there through an inlet.py into the mailbox.
exports.py lists which actors others may reach, notes.py is what goes over the wire, values.py makes refs in messages
work where they come.
"""

from .node import Node
from .notes import MAX_MESSAGE_BYTES
from .ref import RemoteRef

__all__ = [
    "MAX_MESSAGE_BYTES",
    "Node",
    "RemoteRef",
]
