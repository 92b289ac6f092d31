"""What an unauthenticated peer may send: the steps of authentication, mutated, sent to either end at any moment of it.

What is not byte for byte the honest step lets no peer in: that is asserted here, whatever else is.
"""

from __future__ import annotations

from random import Random
from typing import Final

from aiostorm.transport import AuthenticationError, Credentials, ProtocolError, Secret
from aiostorm.transport.net.authentication import Acceptor, Claim, Dialler, Identity

_CREDENTIALS: Final = Credentials("fuzz", Secret(bytes(range(32))))
_DIALLER: Final = Claim(_CREDENTIALS, Identity("a"), b"d" * 32)
_ACCEPTOR: Final = Claim(_CREDENTIALS, Identity("b"), b"a" * 32)


def _honest() -> tuple[bytes, bytes, bytes, bytes]:
    dialler, acceptor = Dialler(_DIALLER), Acceptor(_ACCEPTOR)
    hello = dialler.hello
    challenge = acceptor.receive(hello) or b""
    proof = dialler.receive(challenge) or b""
    return hello, challenge, proof, acceptor.receive(proof) or b""


STEPS: Final = _honest()


def step(rng: Random) -> bytes:
    """An honest frame."""
    return rng.choice(STEPS)


def read_step(data: bytes) -> None:
    """Tell it to an acceptor and to a dialler, each before and after the other's first honest step."""
    hello, challenge, proof, welcome = STEPS
    refused = 0
    for end, before, lets_in in (
        (Acceptor(_ACCEPTOR), (), ()),
        (Acceptor(_ACCEPTOR), (hello,), (proof,)),
        (Dialler(_DIALLER), (), ()),
        (Dialler(_DIALLER), (challenge,), (welcome,)),
    ):
        for honest in before:
            end.receive(honest)
        try:
            end.receive(data)
        except AuthenticationError:
            refused += 1
        assert not end.done or data in lets_in, "a mutated step let a peer in"
    if refused == 4:
        raise ProtocolError("all refuse it")
