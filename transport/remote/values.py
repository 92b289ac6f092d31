"""Refs in messages: what makes a ref that is sent one that works where it comes.

    a Ref of ours    ─► (our name, number of the actor)          the actor is for others from now on (exports.py)
    a RemoteRef      ─► (its process, its name or number)

    comes home       ─► the actor itself; if it has ended, a ref that leads nowhere
    comes elsewhere  ─► a RemoteRef: it works if that process is linked there

1. On the wire a ref is the length of its process's name (1 byte), the name, and its key, as in an OPEN
   (notes.py).
"""

from __future__ import annotations

from typing import Any, Protocol

from ...actors import Ref
from ..codec.values import pack_message, unpack_message
from ..errors import UnreadableError
from .notes import key_of, pack_key
from .ref import DeadRef, PeerTable, RemoteRef


class Refs(PeerTable, Protocol):
    """Who makes refs: a node."""

    @property
    def name(self) -> str:
        """Of this process."""
        ...


class RefCodec:
    """Messages of one node as bytes, the refs in them included. Is a Codec, and a RefTable of codec/values.py."""

    def __init__(self, refs: Refs) -> None:
        self._refs = refs

    def pack(self, message: Any) -> bytes:
        return pack_message(message, self)

    def unpack(self, data: memoryview) -> Any:
        return unpack_message(data, self)

    def encode_ref(self, ref: Ref) -> bytes:
        if isinstance(ref, RemoteRef):
            node, key = ref.node, ref.key
        else:
            node, key = self._refs.name, self._refs.home.exports.number_of(ref)
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
        return self._refs.home.exports.find_for(key) or DeadRef(self._refs, node, key)
