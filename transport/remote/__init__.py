"""Actors of other processes.

node.py is this process as other processes reach it. ref.py is the address of a remote actor: messages go through a
channel.py, limited by flow_control.py, to the peer.py of its process, and there through an inlet.py into the mailbox.
exports.py lists the actors that others may reach, notes.py is the encoding, and values.py encodes refs in messages.
"""

from .node import Node
from .notes import MAX_MESSAGE_BYTES
from .ref import RemoteRef

__all__ = [
    "MAX_MESSAGE_BYTES",
    "Node",
    "RemoteRef",
]
