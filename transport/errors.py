"""What can go wrong between two processes."""

from __future__ import annotations

from ..actors import MailboxClosedError
from ..runtime import AiostormError


class NetworkError(AiostormError, ConnectionError):
    """The network cannot do it now: nobody listens at the address, it is not reached, or it is taken."""


class ConnectionLostError(NetworkError):
    """This connection is over: closed by either side, cut, or the peer is gone. A new one may be tried."""


class FrameTooLargeError(AiostormError, ValueError):
    """A frame is larger than a connection carries. Cut it up: the connection is as it was."""


class ProtocolError(NetworkError):
    """A frame came that no peer of this version sends. End the connection; what it says cannot be relied on."""


class AuthenticationError(NetworkError):
    """Who is at the other end has not proved to belong to the cluster, or does not believe that we do."""


class ExposedError(AiostormError):
    """An address that other machines can reach, without what protects it. Nothing listens there, nothing was sent."""


class CredentialsError(AiostormError, ValueError):
    """A token, a certificate or a key cannot be used. It says which and why, and nothing of what is in them."""


class LinkClosedError(NetworkError):
    """The link was closed, here: nothing is sent over it any more."""


class LinkSupersededError(NetworkError):
    """Another process has this one's name, and the peer has taken it for the later one. This process must end."""


class UnreadableError(ProtocolError):
    """Bytes came that are no value in this process: not of the format, beyond its limits, or of an unknown record."""


class RecordError(AiostormError, TypeError):
    """A class cannot be registered as a record, or not under this name."""


class UnsendableError(AiostormError, TypeError):
    """A value that cannot be sent to another process. The message says which, where it is, and what to do.

    `path` is its place inside of what was sent (`[3]['when']`); `offset` the place of the first row, where rows were.
    """

    def __init__(self, reason: str, path: str = "", *, where: str = "", offset: int | None = None) -> None:
        self.reason = reason
        self.path = path
        self.offset = offset
        place = ", ".join(part for part in (where, f"at {path}" if path else "") if part)
        super().__init__(f"{place}: {reason}" if place else reason)

    def inside(self, step: str) -> UnsendableError:
        """The same, seen from one container further out."""
        return UnsendableError(self.reason, step + self.path)


class PeerLostError(NetworkError):
    """The process that a ref leads to is not linked, is gone, or has begun a new life.

    What it was asked may or may not have been done, unless the text says that it was not sent.
    """


class NoSuchActorError(MailboxClosedError):
    """The other process has no such actor, or it is not for others. Offer it there: `node.offer(name, ref)`."""


class NotHereError(AiostormError):
    """Only the actor's own process can do that. Send it a message that asks it to."""


class RemoteFailureError(AiostormError):
    """What an actor of another process raised: its `kind` (the name of the error's type) and its text."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(f"{kind}: {text}" if text else kind)
        self.kind = kind
        self.text = text
