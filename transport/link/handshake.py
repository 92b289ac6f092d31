"""Handshake: on each new connection, which incarnation is the peer, and which frame does it expect next? Pure.

    connected ─► HELLO(I, attempt) ──────────► the peer receives it
                 established ◄──────────────── HELLO(P, attempt', I, attempt, next)
    peer established ◄──── HELLO(I, attempt, P, attempt', next)        answers each HELLO that is not established

1. A peer counts as established only when it repeats our incarnation and attempt. The first HELLO alone proves nothing:
   it may come from a process that has died since, on a connection that was accepted late.
2. An incarnation that was replaced gets REFUSED from then on, and becomes `superseded`: of two living copies of a
   worker one has to end. Here it is the older one; leases decide elsewhere. The last 64 replaced incarnations are
   remembered.
3. A HELLO is sent once: a connection loses nothing while it lives. If it dies, the silence ends it (see link).

From: TCP's three-way handshake (RFC 9293); the epochs of Kafka's producers, against zombies.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from ..errors import ProtocolError
from .headers import LinkHello, LinkRefused

_REMEMBERED: Final = 64


class Handshake:
    """One end's part. `greeting` is sent with each HELLO; `expected_greeting` is the peer's (empty: any)."""

    __slots__ = (
        "_attempt",
        "_expected_greeting",
        "_greeting",
        "_peer_hello",
        "_replaced",
        "established",
        "hello_due",
        "incarnation",
        "peer",
        "refusal",
        "superseded",
    )

    def __init__(self, incarnation: int, greeting: bytes, expected_greeting: bytes) -> None:
        if not 0 < incarnation < 2**64:
            raise ValueError(f"an incarnation is a number from 1 to 2**64 - 1, not {incarnation}")
        self.incarnation = incarnation
        self.peer = 0
        """The peer's incarnation; 0 before the first connection is established."""
        self.established = False
        """Has the peer answered on this connection?"""
        self.superseded = False
        self.hello_due = False
        self.refusal: LinkRefused | None = None
        """The frame that answers a replaced incarnation."""
        self._greeting = greeting
        self._expected_greeting = expected_greeting
        self._attempt = 0  # the number of this connection
        self._peer_hello = (0, 0)  # incarnation and attempt of the last HELLO on this connection
        self._replaced: deque[int] = deque(maxlen=_REMEMBERED)

    def connect(self) -> None:
        """There is a new connection."""
        self.disconnect()
        self._attempt += 1
        self.hello_due = True

    def disconnect(self) -> None:
        """The connection has ended."""
        self.established = self.hello_due = False
        self._peer_hello = (0, 0)
        self.refusal = None

    def next_frame(self, expected: int) -> bytes | None:
        """A REFUSED or HELLO, if one is due. `expected`: the number of the next frame of the incarnation `peer`."""
        if self.refusal is not None:
            refusal, self.refusal = self.refusal, None
            return refusal.encode()
        if self.superseded or not self.hello_due:
            return None
        self.hello_due = False
        peer, attempt = self._peer_hello
        if peer != self.peer:
            expected = 0  # a new incarnation has sent nothing yet
        hello = LinkHello(self.incarnation, self._attempt, peer, attempt, expected, self.established, self._greeting)
        return hello.encode()

    def on_hello(self, hello: LinkHello) -> bool:
        """Take a HELLO. Does it establish the connection? Then call `establish`. ProtocolError if it is wrong."""
        if self._expected_greeting and hello.greeting != self._expected_greeting:
            name = self._expected_greeting.decode("ascii", "backslashreplace")
            raise ProtocolError(f"another process answers in the place of {name}: {hello.greeting[:140]!r}")
        if hello.incarnation == self.incarnation:
            raise ProtocolError("the peer has our own incarnation: a process is linked to itself, or was copied")
        if hello.incarnation in self._replaced:
            self.refusal = LinkRefused(hello.incarnation, hello.attempt)
            return False
        self._peer_hello = (hello.incarnation, hello.attempt)
        if not hello.established:
            self.hello_due = True  # answer, so that the peer can become established
        return not self.established and (hello.peer, hello.peer_attempt) == (self.incarnation, self._attempt)

    def establish(self, incarnation: int) -> bool:
        """The peer has answered. Is it another incarnation than before?"""
        self.established = True
        before = self.peer
        self.peer = incarnation
        if before and before != incarnation:
            self._replaced.append(before)
        return before != incarnation

    def on_refused(self, refused: LinkRefused) -> None:
        """If it is for this incarnation and this connection, this process has been replaced."""
        if (refused.incarnation, refused.attempt) == (self.incarnation, self._attempt):
            self.superseded = True
