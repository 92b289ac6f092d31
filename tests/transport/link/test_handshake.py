"""Handshake: what a HELLO says of the peer, and when."""

from __future__ import annotations

from aiostorm.transport.link.handshake import Handshake
from aiostorm.transport.link.headers import LinkHello, decode


def hello_of(handshake: Handshake, expected: int) -> LinkHello:
    """The next frame, which is a HELLO."""
    frame = handshake.next_frame(expected)
    assert frame is not None
    hello = decode(frame)
    assert isinstance(hello, LinkHello)
    return hello


def test_a_hello_names_the_peer_only_after_its_hello_on_this_connection() -> None:
    handshake = Handshake(5, b"me", b"")
    handshake.connect()
    assert hello_of(handshake, 0) == LinkHello(5, 1, 0, 0, 0, False, b"me")
    assert handshake.next_frame(0) is None
    assert not handshake.on_hello(LinkHello(1, 7))
    assert hello_of(handshake, 9) == LinkHello(5, 1, 1, 7, 0, False, b"me"), "it has sent nothing yet"
    assert handshake.on_hello(LinkHello(1, 7, 5, 1, established=True))
    assert handshake.establish(1)
    handshake.disconnect()
    assert handshake.next_frame(9) is None
    handshake.connect()
    assert hello_of(handshake, 9) == LinkHello(5, 2, 0, 0, 0, False, b"me")
    assert not handshake.on_hello(LinkHello(1, 8))
    assert hello_of(handshake, 9) == LinkHello(5, 2, 1, 8, 9, False, b"me")
    assert handshake.on_hello(LinkHello(1, 8, 5, 2))
    assert not handshake.establish(1)
