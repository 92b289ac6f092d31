"""Refs in messages: a ref that is sent works in the process that receives it.

    a Ref of this process ─► (our name, number of the actor)          others may reach the actor then (exports.py)
    a RemoteRef           ─► (its process, its name or number)

    received by its own process ─► the actor itself; if it has ended, a ref that leads nowhere
    received by another process ─► a RemoteRef, which works if that process is linked

1. An encoded ref is the length of its process's name (1 byte), the name, and its key, as in an OPEN (notes.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ...actors import Ref
from ..codec.values import pack_message, unpack_message
from ..errors import UnreadableError
from .notes import key_of, pack_key
from .ref import DeadRef, PeerTable, RemoteRef

if TYPE_CHECKING:
    from ...actors import Message
    from ..codec import Received


class Refs(PeerTable, Protocol):
    """Makes refs; a Node implements it."""

    @property
    def name(self) -> str:
        """The name of this process."""
        ...


class RefCodec:
    """Encodes the messages of one node with their refs. A Codec, and a RefTable of codec/values.py."""

    def __init__(self, refs: Refs) -> None:
        self._refs = refs

    def pack(self, message: Message) -> bytes:
        return pack_message(message, self)

    def unpack(self, data: memoryview) -> Received:
        return unpack_message(data, self)

    def encode_ref(self, value: object) -> bytes | None:
        if isinstance(value, RemoteRef):
            node, key = value.node, value.key
        elif isinstance(value, Ref):
            node, key = self._refs.name, self._refs.context.exports.number_of(value)
        else:
            return None
        name = node.encode()
        return b"%c%b%b" % (len(name), name, pack_key(key))

    def decode_ref(self, data: bytes) -> Ref:
        if not data or not 0 < data[0] < len(data):
            raise UnreadableError(f"a ref of {len(data)} bytes")
        size = data[0]
        node = data[1 : 1 + size].decode("ascii")
        key = key_of(memoryview(data)[1 + size :])
        if node != self._refs.name:
            return RemoteRef(self._refs, node, key)
        return self._refs.context.exports.find_for(key) or DeadRef(self._refs, node, key)
